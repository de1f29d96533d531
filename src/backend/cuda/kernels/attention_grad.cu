// The gradient of attention: weights are computed again from the saved logarithms of sums. A block
// has a tile of queries and sums over keys what these get, or a tile of keys and sums over queries;
// so no two blocks add to the same number, and results repeat themselves.
#include "backend/cuda/attention/attention.cuh"
#include "backend/types.h"

namespace brim::cuda {
namespace {

/// What the gradient's kernels take beside the forward pass's operands. lse, dots: (B, H, L).
template <class T>
struct AttentionGrad {
  using C = Compute<T>;
  HeadRows<const T> dy;
  const C *lse, *dots;
};

/// dots = the products of y's and dy's rows: a thread for each.
template <class T, class C = Compute<T>>
__global__ void attention_dots_kernel(HeadRows<const T> dy, HeadRows<const T> y, C* dots,
                                      int64_t heads, int64_t queries, int64_t features,
                                      int64_t count) {
  begin_kernel();
  for (int64_t at = first_index(); at < count; at += grid_size()) {
    const int64_t head = at / queries, i = at % queries;
    const T* g = dy.at(head / heads, head % heads) + i * dy.row;
    const T* r = y.at(head / heads, head % heads) + i * y.row;
    C sum = 0;
    for (int64_t c = 0; c < features; ++c) sum += widen(g[c]) * widen(r[c]);
    dots[at] = sum;
  }
}

/// A weight as dropout leaves it, and the gradient of its score before that was scaled.
template <class C>
struct WeightGrad {
  C weight, score;
};

template <class T, class C>
__device__ WeightGrad<C> weight_grad(const Attention<T>& job, const AttentionGrad<T>& grad,
                                     DropFactors<C>& factor, int64_t b, int64_t h, int64_t i,
                                     int64_t j, C product, C dp) {
  const C score = job.score(product, b, h, i, j);
  if (score == -std::numeric_limits<C>::infinity()) return {C(0), C(0)};
  const int64_t row = (b * job.heads + h) * job.queries + i;
  const C weight = std::exp(score - grad.lse[row]), kept = factor(row * job.keys + j);
  return {weight * kept, weight * job.scale * (dp * kept - grad.dots[row])};
}

/// Rows are queries, columns keys.
template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(ScoreTile<C>::kThreads)
    attention_query_grad_kernel(Attention<T> job, AttentionGrad<T> grad, HeadRows<T> dq,
                                GraphParameter<RandomKey> random, TileGrid<C> grid) {
  begin_kernel();
  using Tile = ScoreTile<C>;
  alignas(16) __shared__ C operands[2 * Tile::kOperand];
  alignas(16) __shared__ C gradients[Tile::kScores];
  DropFactors<C> factor(job.dropout, random.get());
  grid.each([&](int64_t query, int64_t of_all, int64_t first) {
    const int64_t b = of_all / job.heads, h = of_all % job.heads, shared = h / job.group();
    const TileRows<T> q{job.q.at(b, h), job.q.row, query, job.queries};
    const TileRows<T> dy{grad.dy.at(b, h), grad.dy.row, query, job.queries};
    const int64_t seen = job.causal ? std::min(job.keys, query + Tile::kSize) : job.keys;
    Four<C> sums[4] = {};
    for (int64_t key = 0; key < seen; key += Tile::kSize) {
      const TileRows<T> k{job.k.at(b, shared), job.k.row, key, job.keys};
      const TileRows<T> v{job.v.at(b, shared), job.v.row, key, job.keys};
      Four<C> products[4] = {}, dp[4] = {};
      add_row_products(products, q, k, job.features, operands);
      add_row_products(dp, dy, v, job.value_features, operands);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const WeightGrad<C> d =
              weight_grad(job, grad, factor, b, h, query + Tile::row() + i,
                          key + Tile::column() + j, products[i].at[j], dp[i].at[j]);
          gradients[(Tile::column() + j) * Tile::kPitch + Tile::row() + i] = d.score;
        }
      __syncthreads();
      add_weighted_rows(sums, gradients, k, first, job.features, operands);
    }
    write_rows(dq.at(b, h), dq.row, query, job.queries, first, job.features, sums,
               [](int) { return C(1); });
  });
}

/// Rows are keys, columns queries, of all heads that share the keys.
template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(ScoreTile<C>::kThreads)
    attention_key_grad_kernel(Attention<T> job, AttentionGrad<T> grad, HeadRows<T> dk,
                              HeadRows<T> dv, GraphParameter<RandomKey> random, TileGrid<C> grid) {
  begin_kernel();
  using Tile = ScoreTile<C>;
  alignas(16) __shared__ C operands[2 * Tile::kOperand];
  alignas(16) __shared__ C weights[Tile::kScores];
  alignas(16) __shared__ C gradients[Tile::kScores];
  DropFactors<C> factor(job.dropout, random.get());
  grid.each([&](int64_t key, int64_t of_all, int64_t first) {
    const int64_t b = of_all / job.shared_heads, shared = of_all % job.shared_heads;
    const TileRows<T> k{job.k.at(b, shared), job.k.row, key, job.keys};
    const TileRows<T> v{job.v.at(b, shared), job.v.row, key, job.keys};
    Four<C> key_sums[4] = {}, value_sums[4] = {};
    for (int64_t h = shared * job.group(); h < (shared + 1) * job.group(); ++h)
      for (int64_t query = job.causal ? key : 0; query < job.queries; query += Tile::kSize) {
        const TileRows<T> q{job.q.at(b, h), job.q.row, query, job.queries};
        const TileRows<T> dy{grad.dy.at(b, h), grad.dy.row, query, job.queries};
        Four<C> products[4] = {}, dp[4] = {};
        add_row_products(products, k, q, job.features, operands);
        add_row_products(dp, v, dy, job.value_features, operands);
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const WeightGrad<C> d =
                weight_grad(job, grad, factor, b, h, query + Tile::column() + j,
                            key + Tile::row() + i, products[i].at[j], dp[i].at[j]);
            const int at = (Tile::column() + j) * Tile::kPitch + Tile::row() + i;
            weights[at] = d.weight;
            gradients[at] = d.score;
          }
        __syncthreads();
        add_weighted_rows(key_sums, gradients, q, first, job.features, operands);
        add_weighted_rows(value_sums, weights, dy, first, job.value_features, operands);
      }
    const auto as_is = [](int) { return C(1); };
    write_rows(dk.at(b, shared), dk.row, key, job.keys, first, job.features, key_sums, as_is);
    write_rows(dv.at(b, shared), dv.row, key, job.keys, first, job.value_features, value_sums,
               as_is);
  });
}

template <class T>
void attention_grad(const Context& context, const Tensor& dy, const Tensor& q, const Tensor& k,
                    const Tensor& v, const Tensor& mask, const Tensor& y, const Tensor& lse,
                    Tensor& dq, Tensor& dk, Tensor& dv, const backend::AttentionParams& params,
                    const RandomKey& key) {
  using C = Compute<T>;
  const Attention<T> job(q, k, v, mask, params);
  const int64_t rows = lse.numel();
  const Workspace dots = context.workspace(static_cast<size_t>(rows) * sizeof(C));
  const AttentionGrad<T> grad{HeadRows<const T>(dy), data<const C>(lse), dots.as<C>()};
  if (rows > 0)
    launch(context, &attention_dots_kernel<T>, grid_for(rows), grad.dy, HeadRows<const T>(y),
           dots.as<C>(), job.heads, job.queries, job.value_features, rows);
  const TileGrid<C> queries(job.queries, job.batches * job.heads, job.features);
  if (queries.count() > 0)
    launch_blocks(context, &attention_query_grad_kernel<T>, queries.grid(), job, grad,
                  HeadRows<T>(dq), graph_parameter(key), queries);
  const TileGrid<C> keys(job.keys, job.batches * job.shared_heads,
                         std::max(job.features, job.value_features));
  if (keys.count() > 0)
    launch_blocks(context, &attention_key_grad_kernel<T>, keys.grid(), job, grad, HeadRows<T>(dk),
                  HeadRows<T>(dv), graph_parameter(key), keys);
}

const bool registered =
    backend::for_each_type(backend::Floats{}, []<class T>(std::type_identity<T>) {
      backend::register_kernel("attention_grad", DeviceKind::cuda, dtype_of<T>, &attention_grad<T>);
    });

}  // namespace
}  // namespace brim::cuda
