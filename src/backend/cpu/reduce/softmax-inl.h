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

#include "backend/cpu/reduce/row_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// exp(v); hn::Exp would make NaN 0.
template <class D, class V>
HWY_INLINE V exp_of(D d, V v) {
  return hn::IfThenElse(hn::IsNaN(v), v, hn::Exp(d, v));
}

/// exp(x) for x <= 0, or a rounding above, to one unit in the last place; 0 where that is too small
/// for a normal number. NaN stays. Fewer steps than hn::Exp, whose time is much of softmax's.
template <class D, class V>
HWY_INLINE V exp_below_0(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return exp_of(d, x);
  } else {
    const hn::RebindToSigned<D> bits;
    // Added to so large a number, the exponent and its bias of 127 are the lowest bits.
    const auto whole = hn::Set(d, 0x1.8p23f + 127);
    const auto biased = hn::MulAdd(x, hn::Set(d, 1.44269504f), whole);
    const auto n = hn::Sub(biased, whole);
    const auto r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f),
                                 hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
    auto p = hn::Set(d, 1.9875691500e-4f);  // of (exp(r) - 1 - r) / r^2, as in Cephes' expf
    for (const float c :
         {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
      p = hn::MulAdd(p, r, hn::Set(d, c));
    const auto y = hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
    const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(bits, biased)));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3365f)), hn::Mul(y, power));
  }
}

/// log(v) of sums of exponentials; NaN stays NaN.
template <class D, class V>
HWY_INLINE V log_of(D d, V v) {
  return hn::IfThenElse(hn::IsNaN(v), v, hn::Log(d, v));
}

/// exp of numbers that are not above 0, and log, of the first `width` (rounded up to vectors).
template <class T>
void exp_columns(T* x, int64_t width) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes)
    hn::Store(exp_below_0(d, hn::Load(d, x + i)), d, x + i);
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

/// Sum of exp(x - largest); writes the terms to `terms` unless it is null.
template <class T>
T row_sum_exp(const T* x, int64_t n, T largest, T* terms) {
  const hn::ScalableTag<T> d;
  const auto m = hn::Set(d, largest);
  return static_cast<T>(
      sum_in_blocks<T>(n, [&](int64_t begin, int64_t of_block, auto& sum) HWY_ATTR {
        each_vector(x + begin, of_block, -std::numeric_limits<T>::infinity(),
                    [&](auto v, int64_t at, int64_t count) HWY_ATTR {
                      const auto e = exp_below_0(d, hn::Sub(v, m));
                      sum = hn::Add(sum, e);
                      if (terms) store_part(e, terms + begin + at, count);
                    });
      }));
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
