// Rows of exponentials, compiled once per instruction set: what softmax and cross-entropy share.
// Exponents are taken relative to the row's largest element, so nothing overflows; a row that holds
// NaN or only -inf gives NaN.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#if defined(BRIM_BACKEND_CPU_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_SOFTMAX_INL_H
#undef BRIM_BACKEND_CPU_SOFTMAX_INL_H
#else
#define BRIM_BACKEND_CPU_SOFTMAX_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <brim/formula/dense.h>

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

/// exp(v); hn::Exp would make NaN 0.
template <class D, class V>
HWY_INLINE V exp_of(D d, V v) {
  return hn::IfThenElse(hn::IsNaN(v), v, hn::Exp(d, v));
}

/// log(v) of sums of exponentials; NaN stays NaN.
template <class D, class V>
HWY_INLINE V log_of(D d, V v) {
  return hn::IfThenElse(hn::IsNaN(v), v, hn::Log(d, v));
}

/// exp and log of the first `width` (rounded up to vectors) elements.
template <class T>
void exp_columns(T* x, int64_t width) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) hn::Store(exp_of(d, hn::Load(d, x + i)), d, x + i);
}
template <class T>
void log_columns(T* x, int64_t width) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) hn::Store(log_of(d, hn::Load(d, x + i)), d, x + i);
}

/// The largest of a row that is stored as W, or NaN where there is one.
template <class W>
formula::Arithmetic<W> row_max(const W* x, int64_t n) {
  using T = formula::Arithmetic<W>;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  const auto larger = [](auto v, auto m) HWY_ATTR {
    return hn::IfThenElse(hn::Or(hn::Gt(v, m), hn::IsNaN(v)), v, m);
  };
  // Four, because each waits for the one before.
  auto m = hn::Set(d, kLowest), m1 = m, m2 = m, m3 = m;
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m = larger(load(d, x + i), m);
    m1 = larger(load(d, x + i + lanes), m1);
    m2 = larger(load(d, x + i + 2 * lanes), m2);
    m3 = larger(load(d, x + i + 3 * lanes), m3);
  }
  m = larger(larger(m1, m), larger(m3, m2));
  each_vector(
      x, n, kLowest, [&](auto v, int64_t, int64_t) { m = larger(v, m); }, i);
  HWY_ALIGN T lane[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(m, d, lane);
  T largest = lane[0];
  for (size_t k = 1; k < hn::Lanes(d); ++k)
    if (lane[k] > largest || lane[k] != lane[k]) largest = lane[k];
  return largest;
}

/// The sum of n terms, a few of them in T, then in f64: add(begin, count, sum) adds `count` to the
/// vector `sum`.
template <class T, class Add>
HWY_INLINE T sum_in_blocks(int64_t n, const Add& add) {
  const hn::ScalableTag<T> d;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSummed) {
    auto sum = hn::Zero(d);
    add(begin, std::min(kSummed, n - begin), sum);
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  return static_cast<T>(total);
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

/// Sum of exp(x - largest); writes the terms to `terms` unless it is null.
template <class T>
T row_sum_exp(const T* x, int64_t n, T largest, T* terms) {
  const hn::ScalableTag<T> d;
  const auto m = hn::Set(d, largest);
  return sum_in_blocks<T>(n, [&](int64_t begin, int64_t of_block, auto& sum) HWY_ATTR {
    each_vector(x + begin, of_block, -std::numeric_limits<T>::infinity(),
                [&](auto v, int64_t at, int64_t count) HWY_ATTR {
                  const auto e = exp_of(d, hn::Sub(v, m));
                  sum = hn::Add(sum, e);
                  if (terms) store_part(e, terms + begin + at, count);
                });
  });
}

/// Of each of `width` columns of n elements, kColumns at most: the largest, and the sum of
/// exp(x - largest). Writes the terms to `terms`, which may be x, unless it is null.
template <class T>
void columns_sum_exp(const T* x, int64_t n, int64_t inner, int64_t width, T* HWY_RESTRICT largest,
                     T* HWY_RESTRICT sum, T* terms) {
  HWY_ALIGN T e[kColumns] = {};
  ColumnSums<T> sums;
  std::fill_n(largest, width, -std::numeric_limits<T>::infinity());
  for (int64_t j = 0; j < n; ++j)
    for (int64_t c = 0; c < width; ++c) {
      const T v = x[j * inner + c];
      largest[c] = ((v > largest[c]) | (v != v)) ? v : largest[c];
    }
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t c = 0; c < width; ++c) e[c] = x[j * inner + c] - largest[c];
    exp_columns(e, width);
    for (int64_t c = 0; c < width; ++c) sums.part[c] += e[c];
    sums.end_row();
    if (terms) std::copy_n(e, width, terms + j * inner);
  }
  sums.write(width, sum);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
