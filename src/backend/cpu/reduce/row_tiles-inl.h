// Rows by vectors, short rows as columns of a tile, and sums over many terms: what softmax and
// rms_norm share. Include it inside a foreach_target file only.
#if defined(BRIM_BACKEND_CPU_ROW_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_ROW_TILES_INL_H
#undef BRIM_BACKEND_CPU_ROW_TILES_INL_H
#else
#define BRIM_BACKEND_CPU_ROW_TILES_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "backend/cpu/elementwise/transpose-inl.h"
#include "backend/cpu/elementwise/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kColumns = 64;      // of a tile
inline constexpr int64_t kSummed = 1024;     // terms of a row that are summed in their own type
inline constexpr int64_t kSummedRows = 128;  // and of a column

/// Short rows of n elements as columns of a tile, kColumns at most.
template <class T>
HWY_NOINLINE void to_columns(const T* rows, int64_t n, int64_t count, T* tile) {
  transpose(rows, n, count, n, tile, kColumns);
}
template <class T>
void to_rows(const T* tile, int64_t n, int64_t count, T* rows) {
  transpose(tile, kColumns, n, count, rows, n);
}

/// Calls f(vector, at, count) for each vector of the row, which is stored as W, from `begin` on;
/// the last is filled up with `pad`.
template <class T, class W, class F>
void each_vector(const W* x, int64_t n, T pad, const F& f, int64_t begin = 0) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= n; i += lanes) f(load(d, x + i), i, lanes);
  if (hn::MaxLanes(d) == 1 || i == n) return;  // gcc does not see that one lane leaves no rest
  f(load_part(d, x + i, n - i, W(pad)), i, n - i);
}

template <class T, class V>
void store_part(V v, T* y, int64_t count) {
  const hn::ScalableTag<T> d;
  if (hn::MaxLanes(d) == 1 || count == static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(v, d, y);
    return;
  }
  HWY_ALIGN T tail[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, tail);
  std::copy_n(tail, std::min<int64_t>(count, hn::MaxLanes(d)), y);  // which gcc can bound
}

/// The sum of n terms, a few of them in T, then in f64: add(begin, count, sum) adds `count` to the
/// vector `sum`.
template <class T, class Add>
HWY_INLINE double sum_in_blocks(int64_t n, const Add& add) {
  const hn::ScalableTag<T> d;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSummed) {
    auto sum = hn::Zero(d);
    add(begin, std::min(kSummed, n - begin), sum);
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return total;
}

/// Sums of kColumns columns at most: terms of a few rows in T, then in f64.
template <class T>
struct ColumnSums {
  HWY_ALIGN T part[kColumns] = {};

  /// Ends a row, whose terms are in `part`.
  HWY_INLINE void end_row() {
    if (++rows_ == kSummedRows) widen();
  }
  void write(int64_t width, T* sum) {
    widen();
    for (int64_t c = 0; c < width; ++c) sum[c] = static_cast<T>(total_[c]);
  }

 private:
  HWY_NOINLINE void widen() {
    for (int64_t c = 0; c < kColumns; ++c) total_[c] += static_cast<double>(part[c]);
    std::fill_n(part, kColumns, T(0));
    rows_ = 0;
  }

  double total_[kColumns] = {};
  int64_t rows_ = 0;
};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
