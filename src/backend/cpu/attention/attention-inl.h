// Tiles of attention's scores, compiled once per instruction set: what the forward pass and its
// gradient share.
//
// A tile has a row for each key and a column for each query, so that vectors run along queries:
// maxima and sums over keys are those of vectors, and a tile, which lies transposed for one of the
// two products that it goes into, is an operand whose elements are broadcast in both. Queries are
// taken in panels as wide as the products' register tiles. A causal panel ends at the last key that
// its last query sees.
#include <algorithm>
#include <cstdint>
#include <limits>

#include <brim/core/tensor.h>

#include "backend/options/attention_params.h"
#include "formula/philox.h"

#if defined(BRIM_BACKEND_CPU_ATTENTION_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_ATTENTION_INL_H
#undef BRIM_BACKEND_CPU_ATTENTION_INL_H
#else
#define BRIM_BACKEND_CPU_ATTENTION_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/gemm/gemm_pack-inl.h"
#include "backend/cpu/reduce/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

// Of a tile. A multiple of all panels' widths, so that few panels are narrower, and so small that a
// tile's operands stay in the L2 cache.
#if HWY_TARGET <= HWY_AVX3
constexpr int64_t kTileQueries = 192;
#else
constexpr int64_t kTileQueries = 96;
#endif
constexpr int64_t kTileKeys = 64;

template <class T>
int64_t panel_width() {
  return kVecs * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

/// `count` queries rounded up to whole vectors.
template <class T>
int64_t padded(int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  return (count + lanes - 1) / lanes * lanes;
}

/// The rows of a head in a tensor (B, H, rows, columns), columns contiguous.
template <class T>
struct HeadRows {
  T* data;
  int64_t batch, head, row;  // strides

  explicit HeadRows(const Tensor& x)
      : data(static_cast<T*>(x.raw())),
        batch(x.strides()[0]),
        head(x.strides()[1]),
        row(x.strides()[2]) {}
  T* at(int64_t b, int64_t h) const { return data + b * batch + h * head; }
};

/// What all tiles of a call have in common.
template <class T>
struct Attention {
  int64_t batches, heads, shared_heads, queries, keys, features, value_features;
  HeadRows<const T> q, k, v;
  const void* mask;    // null: none
  bool mask_is_bool;   // else it is added
  Shape mask_strides;  // of (B, H, L, S)
  T scale, kept;       // kept: the factor of weights that dropout keeps
  bool causal, drops;
  uint32_t drop_below;
  RandomKey key;

  Attention(const Tensor& tq, const Tensor& tk, const Tensor& tv, const Tensor& tmask,
            const backend::AttentionParams& params, const RandomKey& random)
      : batches(tq.shape()[0]),
        heads(tq.shape()[1]),
        shared_heads(tk.shape()[1]),
        queries(tq.shape()[2]),
        keys(tk.shape()[2]),
        features(tq.shape()[3]),
        value_features(tv.shape()[3]),
        q(tq),
        k(tk),
        v(tv),
        mask(tmask.defined() ? tmask.raw() : nullptr),
        mask_is_bool(tmask.defined() && tmask.dtype() == DType::bool_),
        scale(static_cast<T>(params.scale)),
        kept(params.dropout < 1 ? static_cast<T>(1 / (1 - params.dropout)) : T(0)),
        causal(params.causal),
        drops(params.dropout > 0),
        drop_below(formula::drop_limit(params.dropout)),
        key(random) {
    if (mask) mask_strides = tmask.strides();
  }

  int64_t blocks() const { return (queries + kTileQueries - 1) / kTileQueries; }
  int64_t group() const { return heads / shared_heads; }  // heads that share keys and values
  /// How many keys the queries before `end` see.
  int64_t seen(int64_t end) const { return causal ? std::min(keys, end) : keys; }
  /// Multiply-adds of a block of queries, for one product with so many features.
  int64_t block_work() const {
    return std::min(queries, kTileQueries) * keys * (features + value_features);
  }
};

/// Some queries of a head and some keys.
struct TileAt {
  int64_t batch, head, query, queries, key, keys;
};

/// Blocks of queries in an order in which neighbouring ones see as many keys together as others do.
inline int64_t balanced_block(int64_t i, int64_t blocks) {
  return i % 2 == 0 ? i / 2 : blocks - 1 - i / 2;
}

/// to[c * kTileQueries + i] = scale * element c of row i; zeros behind the last row, up to a whole
/// vector.
template <class T>
void pack_rows(const T* from, int64_t row, int64_t rows, int64_t columns, T scale, T* to) {
  pack_b(columns, rows, Matrix<T>{from, 1, row}, to, kTileQueries);
  const int64_t width = padded<T>(rows);
  for (int64_t c = 0; c < columns; ++c, to += kTileQueries) {
    for (int64_t i = 0; i < rows; ++i) to[i] *= scale;
    std::fill(to + rows, to + width, T(0));
  }
}

/// c (m x n) = a (m x k, elements at row * i + col * p) b (k x n), plus what c held if
/// `accumulate`.
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t row, int64_t col, const T* b,
              int64_t ldb, bool accumulate, T* c, int64_t ldc) {
  const int64_t width = panel_width<T>();
  for (int64_t j = 0; j < n; j += width)
    broadcast_panel<T>(m, k, a, kRows * row, row, col, b + j, ldb, accumulate, c + j, ldc,
                       std::min(width, n - j));
}

/// Calls f(first column, columns, keys that its queries see of those of the tile) for each panel of
/// the tile that sees any; columns are whole vectors.
template <class T, class F>
void for_each_panel(const Attention<T>& job, const TileAt& at, const F& f) {
  const int64_t width = panel_width<T>(), end = padded<T>(at.queries);
  for (int64_t c = 0; c < end; c += width) {
    const int64_t last = at.query + std::min(at.queries, c + width);
    const int64_t keys = std::min(at.keys, job.seen(last) - at.key);
    if (keys > 0) f(c, std::min(width, end - c), keys);
  }
}

/// Hides what causality and the mask hide, and adds a mask that is added, in columns [first, first
/// + columns) and rows [0, keys) of a tile.
template <class T>
void mask_scores(const Attention<T>& job, const TileAt& at, int64_t first, int64_t columns,
                 int64_t keys, T* scores) {
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  const int64_t query = at.query + first;
  if (job.causal)
    for (int64_t j = std::max<int64_t>(0, query - at.key + 1); j < keys; ++j)
      std::fill_n(scores + j * kTileQueries + first, std::min(columns, at.key + j - query),
                  kHidden);
  if (!job.mask) return;
  const Shape& by = job.mask_strides;
  const int64_t begin = at.batch * by[0] + at.head * by[1] + query * by[2] + at.key * by[3];
  const int64_t count = std::min(columns, at.queries - first);
  const auto each = [&](const auto* mask, const auto& apply) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < keys; ++j)
        apply(scores[j * kTileQueries + first + i], mask[begin + i * by[2] + j * by[3]]);
  };
  if (job.mask_is_bool)
    each(static_cast<const bool*>(job.mask), [](T& score, bool seen) {
      if (!seen) score = kHidden;
    });
  else
    each(static_cast<const T*>(job.mask), [](T& score, T added) { score += added; });
}

/// What dropout multiplies weights with, in columns [first, first + columns) and rows [0, keys):
/// that of query i and key j belongs to element ((b H + h) L + i) S + j of the draw.
template <class T>
void dropout_factors(const Attention<T>& job, const TileAt& at, int64_t first, int64_t columns,
                     int64_t keys, T* factors) {
  constexpr int64_t kBlocks = kTileKeys / 4 + 1;
  const int64_t row = (at.batch * job.heads + at.head) * job.queries + at.query + first;
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t element = (row + i) * job.keys + at.key, skipped = element % 4;
    uint32_t word[4 * kBlocks];
    for (int64_t b = 0; b < kBlocks; ++b) {
      const formula::Words r =
          formula::random_block(job.key, static_cast<uint64_t>(element / 4 + b));
      for (int k = 0; k < 4; ++k) word[4 * b + k] = r.w[k] >> 8;
    }
    T* to = factors + first + i;
    for (int64_t j = 0; j < keys; ++j)
      to[j * kTileQueries] = word[skipped + j] < job.drop_below ? T(0) : job.kept;
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
