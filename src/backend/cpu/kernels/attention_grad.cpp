// The gradient of attention on the CPU. A block of queries meets one tile of keys after the other;
// their weights are computed again from the saved logarithms of sums (Dao et al., "FlashAttention",
// NeurIPS 2022). Where there are few heads, their blocks of queries are dealt out to parts, each
// with its own sums of what keys and values get; the parts depend on sizes only.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/attention_grad.cpp"
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

constexpr int64_t kGradParts = 16;                   // of a call, where there are few heads
constexpr int64_t kGradPartWork = int64_t{1} << 20;  // multiply-adds of a part at least

/// What one thread works with; queries are columns of all but the last two, which hold a number for
/// each.
template <class T>
struct GradScratch {
  T *queries, *gradients, *weights, *score_gradients, *factors, *lse, *dots;

  static size_t bytes(const Attention<T>& job) {
    return room_for<T>(job.features * kTileQueries) +
           room_for<T>(job.value_features * kTileQueries) +
           (job.drops ? 3 : 2) * room_for<T>(kTileKeys * kTileQueries) +
           2 * room_for<T>(kTileQueries);
  }
  GradScratch(const Attention<T>& job, T* room) : queries(room) {
    gradients = behind<T>(queries, job.features * kTileQueries);
    weights = behind<T>(gradients, job.value_features * kTileQueries);
    score_gradients = behind<T>(weights, kTileKeys * kTileQueries);
    factors = behind<T>(score_gradients, kTileKeys * kTileQueries);
    lse = job.drops ? behind<T>(factors, kTileKeys * kTileQueries) : factors;
    dots = behind<T>(lse, kTileQueries);
  }
};

/// What is read and written beside the forward pass's operands; lse: (B, H, L).
template <class T>
struct GradRows {
  HeadRows<const T> dy, y;
  const T* lse;
  HeadRows<T> dq;
};

/// Where a part sums the gradients of a head's keys and values: rows, and how far they are apart.
template <class T>
struct KeySums {
  T *k, *v;
  int64_t k_row, v_row;

  void clear(const Attention<T>& job) const {
    for (int64_t j = 0; j < job.keys; ++j) {
      std::fill_n(k + j * k_row, job.features, T(0));
      std::fill_n(v + j * v_row, job.value_features, T(0));
    }
  }
};

/// Of a tile's scores and of the gradients of its weights: the weights as dropout leaves them, and
/// the gradients of the scores before they were scaled, in place.
template <class T, bool kDrops>
void score_gradients(const Attention<T>& job, int64_t first, int64_t columns, int64_t keys,
                     const GradScratch<T>& s) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, job.scale);
  for (int64_t c = first; c < first + columns; c += lanes) {
    const auto lse = hn::Load(d, s.lse + c), dot = hn::Load(d, s.dots + c);
    for (int64_t j = 0; j < keys; ++j) {
      T* weight = s.weights + j * kTileQueries + c;
      T* gradient = s.score_gradients + j * kTileQueries + c;
      auto p = exp_below_0(d, hn::Sub(hn::LoadU(d, weight), lse));
      auto dp = hn::LoadU(d, gradient);
      if constexpr (kDrops) {
        const auto factor = hn::LoadU(d, s.factors + j * kTileQueries + c);
        dp = hn::Mul(dp, factor);
        hn::StoreU(hn::Mul(p, factor), d, weight);
      } else {
        hn::StoreU(p, d, weight);
      }
      hn::StoreU(hn::Mul(hn::Mul(p, scale), hn::Sub(dp, dot)), d, gradient);
    }
  }
}

/// One tile of keys for a block of queries.
template <class T>
void grad_tile(const Attention<T>& job, const TileAt& at, const GradRows<T>& rows,
               const KeySums<T>& sums, const GradScratch<T>& s) {
  const int64_t shared = at.head / job.group(), width = job.features, value = job.value_features;
  const T* k = job.k.at(at.batch, shared) + at.key * job.k.row;
  const T* v = job.v.at(at.batch, shared) + at.key * job.v.row;
  const T* q = job.q.at(at.batch, at.head) + at.query * job.q.row;
  const T* dy = rows.dy.at(at.batch, at.head) + at.query * rows.dy.row;
  T* dq = rows.dq.at(at.batch, at.head) + at.query * rows.dq.row;
  // What the keys get of `count` queries.
  const auto add_to_keys = [&](int64_t first, int64_t count, int64_t keys) {
    multiply(keys, value, count, s.weights + first, kTileQueries, 1, dy + first * rows.dy.row,
             rows.dy.row, true, sums.v + at.key * sums.v_row, sums.v_row);
    multiply(keys, width, count, s.score_gradients + first, kTileQueries, 1, q + first * job.q.row,
             job.q.row, true, sums.k + at.key * sums.k_row, sums.k_row);
  };
  for_each_panel(job, at, [&](int64_t first, int64_t columns, int64_t keys) {
    broadcast_panel<T>(keys, width, k, kRows * job.k.row, job.k.row, 1, s.queries + first,
                       kTileQueries, false, s.weights + first, kTileQueries, columns);
    mask_scores(job, at, first, columns, keys, s.weights);
    broadcast_panel<T>(keys, value, v, kRows * job.v.row, job.v.row, 1, s.gradients + first,
                       kTileQueries, false, s.score_gradients + first, kTileQueries, columns);
    if (job.drops) {
      dropout_factors(job, at, first, columns, keys, s.factors);
      score_gradients<T, true>(job, first, columns, keys, s);
    } else {
      score_gradients<T, false>(job, first, columns, keys, s);
    }
    const int64_t count = std::min(columns, at.queries - first);
    multiply(count, width, keys, s.score_gradients + first, 1, kTileQueries, k, job.k.row,
             at.key > 0, dq + first * rows.dq.row, rows.dq.row);
  });
  const int64_t first_panel = std::min(at.queries, panel_width<T>());
  if (job.seen(at.query + first_panel) >= at.key + at.keys)  // as all others do
    return add_to_keys(0, at.queries, at.keys);
  for_each_panel(job, at, [&](int64_t first, int64_t columns, int64_t keys) {
    add_to_keys(first, std::min(columns, at.queries - first), keys);
  });
}

/// All that a block of queries gives.
template <class T>
void grad_block(const Attention<T>& job, TileAt at, const GradRows<T>& rows, const KeySums<T>& sums,
                const GradScratch<T>& s) {
  const int64_t seen = job.seen(at.query + at.queries), value = job.value_features;
  const T* dy = rows.dy.at(at.batch, at.head) + at.query * rows.dy.row;
  const T* y = rows.y.at(at.batch, at.head) + at.query * rows.y.row;
  const T* lse = rows.lse + (at.batch * job.heads + at.head) * job.queries + at.query;
  pack_rows(job.q.at(at.batch, at.head) + at.query * job.q.row, job.q.row, at.queries, job.features,
            job.scale, s.queries);
  pack_rows(dy, rows.dy.row, at.queries, value, T(1), s.gradients);
  // Columns without a query have weights of 0.
  std::fill_n(s.lse, kTileQueries, std::numeric_limits<T>::infinity());
  std::fill_n(s.dots, kTileQueries, T(0));
  std::copy_n(lse, at.queries, s.lse);
  for (int64_t i = 0; i < at.queries; ++i)
    for (int64_t c = 0; c < value; ++c)
      s.dots[i] += dy[i * rows.dy.row + c] * y[i * rows.y.row + c];
  if (seen == 0) {
    T* dq = rows.dq.at(at.batch, at.head) + at.query * rows.dq.row;
    for (int64_t i = 0; i < at.queries; ++i) std::fill_n(dq + i * rows.dq.row, job.features, T(0));
  }
  for (at.key = 0; at.key < seen; at.key += kTileKeys) {
    at.keys = std::min(kTileKeys, seen - at.key);
    grad_tile(job, at, rows, sums, s);
  }
}

/// The part'th of `parts` shares of the queries that see the keys of a head.
template <class T>
void grad_part(const Attention<T>& job, int64_t batch, int64_t shared, int64_t part, int64_t parts,
               const GradRows<T>& rows, const KeySums<T>& sums, const GradScratch<T>& s) {
  sums.clear(job);
  const int64_t blocks = job.blocks();
  for (int64_t i = part; i < job.group() * blocks; i += parts) {
    const int64_t query = i % blocks * kTileQueries;
    grad_block(job,
               {.batch = batch,
                .head = shared * job.group() + i / blocks,
                .query = query,
                .queries = std::min(kTileQueries, job.queries - query)},
               rows, sums, s);
  }
}

/// d += the sums of parts 1, 2, ..., which lie one after the other, (B, Hkv, S, columns) each.
template <class T>
void add_sums(const Attention<T>& job, const T* sums, int64_t step, int64_t parts,
              const HeadRows<T>& d, int64_t columns) {
  parallel_for(job.batches * job.shared_heads * job.keys,
               (int64_t{1} << 14) / std::max<int64_t>(1, columns * parts) + 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t head = i / job.keys;
                   T* to = d.at(head / job.shared_heads, head % job.shared_heads) +
                           i % job.keys * d.row;
                   for (int64_t part = 1; part < parts; ++part)
                     for (int64_t c = 0; c < columns; ++c)
                       to[c] += sums[(part - 1) * step + i * columns + c];
                 }
               });
}

template <class T>
void attention_grad(const Context& context, const Tensor& dy, const Tensor& q, const Tensor& k,
                    const Tensor& v, const Tensor& mask, const Tensor& y, const Tensor& lse,
                    Tensor& dq, Tensor& dk, Tensor& dv, const backend::AttentionParams& params,
                    const RandomKey& key) {
  const int64_t heads = k.shape()[0] * k.shape()[1];
  if (heads == 0) return;
  const Attention<T> job(q, k, v, mask, params, key);
  const GradRows<T> rows{HeadRows<const T>(dy), HeadRows<const T>(y),
                         static_cast<const T*>(lse.raw()), HeadRows<T>(dq)};
  const HeadRows<T> to_k(dk), to_v(dv);
  const int64_t blocks = job.group() * job.blocks();
  const int64_t part_blocks = kGradPartWork / std::max<int64_t>(1, job.block_work()) + 1;
  const int64_t parts = std::clamp<int64_t>(
      std::min(blocks / part_blocks, (kGradParts + heads - 1) / heads), 1, kGradParts);
  const int64_t k_step = heads * job.keys * job.features;
  const int64_t v_step = heads * job.keys * job.value_features;
  const Workspace others =
      context.workspace(static_cast<size_t>((parts - 1) * (k_step + v_step)) * sizeof(T));
  T *more_k = others.as<T>(), *more_v = more_k + (parts - 1) * k_step;
  const int64_t grain =
      kGradPartWork /
          std::max<int64_t>(1, job.block_work() * std::max<int64_t>(1, blocks / parts)) +
      1;
  const PartScratch scratch(context, heads * parts, grain, GradScratch<T>::bytes(job));
  parallel_for(heads * parts, grain, [&](int64_t begin, int64_t end) {
    const PartScratch::Slot slot(scratch);
    const FlushDenormals guard;
    const GradScratch<T> s(job, slot.as<T>());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / parts, part = i % parts;
      const int64_t b = head / job.shared_heads, h = head % job.shared_heads;
      KeySums<T> sums{to_k.at(b, h), to_v.at(b, h), to_k.row, to_v.row};
      if (part > 0)
        sums = {more_k + (part - 1) * k_step + head * job.keys * job.features,
                more_v + (part - 1) * v_step + head * job.keys * job.value_features, job.features,
                job.value_features};
      grad_part(job, b, h, part, parts, rows, sums, s);
    }
  });
  if (parts == 1) return;
  add_sums(job, more_k, k_step, parts, to_k, job.features);
  add_sums(job, more_v, v_step, parts, to_v, job.value_features);
}

void register_attention_grad() {
  register_floats<&attention_grad<float>, &attention_grad<double>>("attention_grad");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_attention_grad);
#endif
