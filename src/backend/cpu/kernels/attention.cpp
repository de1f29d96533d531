// Attention on the CPU. A block of queries meets one tile of keys after the other; what it has
// summed so far is scaled down whenever a larger score comes (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "backend/cpu/attention/attention-inl.h"
#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/runtime/denormals.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "backend/cpu/runtime/scratch.h"
#include "backend/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kAttentionWork = int64_t{1} << 18;  // multiply-adds of a thread's part at least

/// What one thread works with; queries are columns of `queries`, `weights` and `factors`, and rows
/// of `sums`.
template <class T>
struct ForwardScratch {
  T *queries, *weights, *factors, *sums, *largest, *total, *shrink;

  static size_t bytes(const Attention<T>& job) {
    return room_for<T>(job.features * kTileQueries) +
           (job.drops ? 2 : 1) * room_for<T>(kTileKeys * kTileQueries) +
           room_for<T>(job.value_features * kTileQueries) + 3 * room_for<T>(kTileQueries);
  }
  ForwardScratch(const Attention<T>& job, T* room) : queries(room) {
    weights = behind<T>(queries, job.features * kTileQueries);
    factors = behind<T>(weights, kTileKeys * kTileQueries);
    sums = job.drops ? behind<T>(factors, kTileKeys * kTileQueries) : factors;
    largest = behind<T>(sums, job.value_features * kTileQueries);
    total = behind<T>(largest, kTileQueries);
    shrink = behind<T>(total, kTileQueries);
  }
};

/// Scores in V vectors of columns become exponentials relative to the largest so far, which they
/// may raise; `total` grows by them. Returns whether what was summed before has to shrink, by
/// `shrink`.
template <class T, int V>
bool update_weights(int64_t keys, T* weights, T* largest, T* total, T* shrink) {
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Vec lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  Vec before[V], m[V], sum[V];
  HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) m[v] = before[v] = hn::Load(d, largest + v * lanes);
  for (int64_t j = 0; j < keys; ++j) {
    HWY_UNROLL(4)
    for (int v = 0; v < V; ++v)
      m[v] = hn::Max(m[v], hn::LoadU(d, weights + j * kTileQueries + v * lanes));
  }
  bool shrinks = false;
  HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) {
    hn::Store(m[v], d, largest + v * lanes);
    // A query that has seen nothing yet has sums of 0, whatever its scores are relative to.
    m[v] = hn::IfThenElse(hn::Eq(m[v], lowest), hn::Zero(d), m[v]);
    const Vec factor = exp_of(d, hn::Sub(before[v], m[v]));
    hn::Store(factor, d, shrink + v * lanes);
    shrinks = shrinks || !hn::AllTrue(d, hn::Eq(factor, hn::Set(d, T(1))));
    sum[v] = hn::Mul(hn::Load(d, total + v * lanes), factor);
  }
  for (int64_t j = 0; j < keys; ++j) {
    T* row = weights + j * kTileQueries;
    HWY_UNROLL(4)
    for (int v = 0; v < V; ++v) {
      const Vec e = exp_below_0(d, hn::Sub(hn::LoadU(d, row + v * lanes), m[v]));
      hn::StoreU(e, d, row + v * lanes);
      sum[v] = hn::Add(sum[v], e);
    }
  }
  HWY_UNROLL(4)
  for (int v = 0; v < V; ++v) hn::Store(sum[v], d, total + v * lanes);
  return shrinks;
}

template <class T>
bool update_panel(int64_t columns, int64_t keys, T* weights, T* largest, T* total, T* shrink) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  if (columns == kVecs * lanes)
    return update_weights<T, kVecs>(keys, weights, largest, total, shrink);
  bool shrinks = false;
  for (int64_t c = 0; c < columns; c += lanes)
    shrinks |= update_weights<T, 1>(keys, weights + c, largest + c, total + c, shrink + c);
  return shrinks;
}

/// One tile of keys for a block of queries.
template <class T>
void forward_tile(const Attention<T>& job, const TileAt& at, const ForwardScratch<T>& s) {
  const int64_t shared = at.head / job.group();
  const T* k = job.k.at(at.batch, shared) + at.key * job.k.row;
  const T* v = job.v.at(at.batch, shared) + at.key * job.v.row;
  for_each_panel(job, at, [&](int64_t first, int64_t columns, int64_t keys) {
    broadcast_panel<T>(keys, job.features, k, kRows * job.k.row, job.k.row, 1, s.queries + first,
                       kTileQueries, false, s.weights + first, kTileQueries, columns);
    mask_scores(job, at, first, columns, keys, s.weights);
    const bool shrinks = update_panel(columns, keys, s.weights + first, s.largest + first,
                                      s.total + first, s.shrink + first);
    const int64_t rows = std::min(columns, at.queries - first), width = job.value_features;
    T* sums = s.sums + first * width;
    if (at.key > 0 && shrinks)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < width; ++c) sums[i * width + c] *= s.shrink[first + i];
    if (job.drops) {
      dropout_factors(job, at, first, rows, keys, s.factors);
      for (int64_t j = 0; j < keys; ++j)
        for (int64_t i = first; i < first + rows; ++i)
          s.weights[j * kTileQueries + i] *= s.factors[j * kTileQueries + i];
    }
    multiply(rows, width, keys, s.weights + first, 1, kTileQueries, v, job.v.row, at.key > 0, sums,
             width);
  });
}

/// y and the logarithms of sums for a block of queries.
template <class T>
void forward_block(const Attention<T>& job, TileAt at, const ForwardScratch<T>& s,
                   const HeadRows<T>& y, T* lse) {
  const int64_t width = job.value_features, seen = job.seen(at.query + at.queries);
  pack_rows(job.q.at(at.batch, at.head) + at.query * job.q.row, job.q.row, at.queries, job.features,
            job.scale, s.queries);
  std::fill_n(s.largest, kTileQueries, -std::numeric_limits<T>::infinity());
  std::fill_n(s.total, kTileQueries, T(0));
  if (seen == 0) std::fill_n(s.sums, at.queries * width, T(0));
  for (at.key = 0; at.key < seen; at.key += kTileKeys) {
    at.keys = std::min(kTileKeys, seen - at.key);
    forward_tile(job, at, s);
  }
  T* to = y.at(at.batch, at.head) + at.query * y.row;
  for (int64_t i = 0; i < at.queries; ++i, to += y.row) {
    const T total = s.total[i], scale = total == 0 ? T(0) : 1 / total;
    for (int64_t c = 0; c < width; ++c) to[c] = s.sums[i * width + c] * scale;
    // Infinite for a query that sees no key: so its weights, exp(score - lse), are 0.
    lse[i] = total == 0 ? std::numeric_limits<T>::infinity() : s.largest[i] + std::log(total);
  }
}

template <class T>
void attention(const Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
               const Tensor& mask, Tensor& y, Tensor& lse, const backend::AttentionParams& params,
               const RandomKey& key) {
  if (q.shape()[0] * q.shape()[1] * q.shape()[2] == 0) return;
  const Attention<T> job(q, k, v, mask, params, key);
  const HeadRows<T> out(y);
  T* logs = static_cast<T*>(lse.raw());
  const int64_t blocks = job.blocks(), all = job.batches * job.heads * blocks;
  const int64_t grain = kAttentionWork / std::max<int64_t>(1, job.block_work()) + 1;
  const PartScratch scratch(context, all, grain, ForwardScratch<T>::bytes(job));
  parallel_for(all, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    const FlushDenormals guard;
    const ForwardScratch<T> s(job, slot.as<T>());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / blocks, query = balanced_block(i % blocks, blocks) * kTileQueries;
      const TileAt at{.batch = head / job.heads,
                      .head = head % job.heads,
                      .query = query,
                      .queries = std::min(kTileQueries, job.queries - query)};
      forward_block(job, at, s, out, logs + head * job.queries + query);
    }
  });
}

void register_attention() { register_floats<&attention<float>, &attention<double>>("attention"); }

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_attention);
#endif
