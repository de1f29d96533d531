// Attention: a block has a tile of queries and of the values' columns, and meets one tile of keys
// after the other; what it has summed so far is scaled down whenever a larger score comes.
#include "backend/cuda/attention/attention.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(ScoreTile<C>::kThreads)
    attention_kernel(Attention<T> job, HeadRows<T> y, C* lse, GraphParameter<RandomKey> random,
                     TileGrid<C> grid) {
  begin_kernel();
  using Tile = ScoreTile<C>;
  constexpr C kNothing = -std::numeric_limits<C>::infinity();
  alignas(16) __shared__ C operands[2 * Tile::kOperand];
  alignas(16) __shared__ C weights[Tile::kScores];
  DropFactors<C> factor(job.dropout, random.get());
  grid.each([&](int64_t query, int64_t of_all, int64_t first) {
    const int64_t b = of_all / job.heads, h = of_all % job.heads, shared = h / job.group();
    const TileRows<T> q{job.q.at(b, h), job.q.row, query, job.queries};
    const int64_t seen = job.causal ? std::min(job.keys, query + Tile::kSize) : job.keys;
    Four<C> sums[4] = {};
    C largest[4] = {kNothing, kNothing, kNothing, kNothing}, total[4] = {};
    for (int64_t key = 0; key < seen; key += Tile::kSize) {
      const TileRows<T> k{job.k.at(b, shared), job.k.row, key, job.keys};
      const TileRows<T> v{job.v.at(b, shared), job.v.row, key, job.keys};
      Four<C> scores[4] = {};
      add_row_products(scores, q, k, job.features, operands);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t row = query + Tile::row() + i;
        C most = largest[i];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          C& score = scores[i].at[j];
          score = job.score(score, b, h, row, key + Tile::column() + j);
          most = score > most ? score : most;
        }
        most = combine_lanes(most, Tile::kAcross, [](C a, C c) { return a > c ? a : c; });
        // A query that has seen nothing yet has sums of 0, whatever its scores are relative to.
        const C base = most == kNothing ? C(0) : most;
        const C shrink = std::exp(largest[i] - base);
        largest[i] = most;
        total[i] *= shrink;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const C weight = std::exp(scores[i].at[j] - base);
          total[i] += weight;
          sums[i].at[j] *= shrink;
          const int64_t column = key + Tile::column() + j;
          weights[(Tile::column() + j) * Tile::kPitch + Tile::row() + i] =
              weight * factor((of_all * job.queries + row) * job.keys + column);
        }
      }
      __syncthreads();
      add_weighted_rows(sums, weights, v, first, job.value_features, operands);
    }
    C scale[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const C sum = combine_lanes(total[i], Tile::kAcross, [](C a, C c) { return a + c; });
      scale[i] = sum == 0 ? C(0) : 1 / sum;
      const int64_t row = query + Tile::row() + i;
      // Infinite for a query that sees no key: so its weights, exp(score - lse), are 0.
      if (first == 0 && Tile::column() == 0 && row < job.queries)
        lse[of_all * job.queries + row] =
            sum == 0 ? std::numeric_limits<C>::infinity() : largest[i] + std::log(sum);
    }
    write_rows(y.at(b, h), y.row, query, job.queries, first, job.value_features, sums,
               [&](int i) { return scale[i]; });
  });
}

template <class T>
void attention(const Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& mask, Tensor& y, Tensor& lse, const backend::AttentionParams& params,
               const RandomKey& key) {
  using C = Compute<T>;
  const Attention<T> job(q, k, v, mask, params);
  if (lse.numel() == 0) return;
  // Without a column of values, one tile of them has the logarithms to write.
  const TileGrid<C> grid(job.queries, job.batches * job.heads,
                         std::max<int64_t>(job.value_features, 1));
  launch_blocks(context, &attention_kernel<T>, grid.grid(), job, HeadRows<T>(y), data<C>(lse),
                graph_parameter(key), grid);
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("attention", DeviceKind::cuda, dtype_of<T>, &attention<T>);
    });

}  // namespace
}  // namespace brim::cuda
