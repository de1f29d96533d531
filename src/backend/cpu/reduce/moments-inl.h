// Mean and variance of runs of values, for normalisation. Include it inside a foreach_target file
// only.
#if defined(BRIM_BACKEND_CPU_MOMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_MOMENTS_INL_H
#undef BRIM_BACKEND_CPU_MOMENTS_INL_H
#else
#define BRIM_BACKEND_CPU_MOMENTS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <brim/formula/dense.h>

#include "backend/cpu/elementwise/widen-inl.h"
#include "backend/cpu/runtime/elements.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kRun = 512;  // values summed in the tensor's own type

/// Count, mean and squared distances to it (Chan, Golub and LeVeque, 1979).
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void merge(const Moments& o) {
    if (o.count == 0) return;
    if (count == 0) return void(*this = o);
    const double total = count + o.count, part = o.count / total, step = o.mean - mean;
    squares += o.squares + step * step * count * part;
    mean += step * part;
    count = total;
  }
  /// Of values whose distances to `centre`, and the squares of these, have these sums (the
  /// corrected two-pass algorithm of the same paper, if the centre is roughly their mean).
  static Moments about(double centre, double sum, double squares, double count) {
    const double distance = sum / count;
    return {count, centre + distance, std::max(squares - sum * distance, 0.0)};
  }
  /// 0 of nothing, so that 1 / sqrt(var + eps) of an empty batch is a number.
  double var() const { return count > 0 ? squares / count : 0; }
};

/// Sum over [0, n) of term(index) as vectors plus tail; term has a vector and a scalar form.
template <class T, class VecTerm, class Term>
HWY_INLINE T sum_run(int64_t n, const VecTerm& vec_term, const Term& term) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::Add(even, vec_term(i));
    odd = hn::Add(odd, vec_term(i + lanes));
  }
  T sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; ++i) sum += term(i);
  return sum;
}

/// a b + c with the rounding that vectors have, which a compiler may or may not give a formula.
template <class T>
HWY_INLINE T mul_add(T a, T b, T c) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(hn::MulAdd(hn::Set(d, a), hn::Set(d, b), hn::Set(d, c)));
}

/// The first `count` lanes, or all.
template <class D>
HWY_INLINE hn::Mask<D> first_lanes(D d, int64_t count) {
  return hn::FirstN(d, std::min(static_cast<size_t>(count), hn::Lanes(d)));
}

/// Sum of n values, at most kRun.
template <class T, class W>
HWY_INLINE T sum_values(const W* x, int64_t n) {
  if constexpr (sizeof(W) == 2) {
    const hn::ScalableTag<T> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    auto even = hn::Zero(d), odd = even;
    int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      even = hn::Add(even, load(d, x + i));
      odd = hn::Add(odd, load(d, x + i + lanes));
    }
    for (; i < n; i += lanes) even = hn::Add(even, load_part(d, x + i, n - i, W(0.0f)));
    return hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  } else {
    return sum_run<T>(
        n, [&](int64_t i) HWY_ATTR { return hn::LoadU(hn::ScalableTag<T>(), x + i); },
        [&](int64_t i) { return x[i]; });
  }
}

/// Of n values, at most kRun, by their distances to `centre`.
template <class T, class W>
HWY_INLINE Moments moments_about(T centre, const W* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto c = hn::Set(d, centre);
  auto sums = hn::Zero(d), even = sums, odd = sums;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto e = hn::Sub(load(d, x + i), c);
    const auto o = hn::Sub(load(d, x + i + lanes), c);
    sums = hn::Add(sums, hn::Add(e, o));
    even = hn::MulAdd(e, e, even);
    odd = hn::MulAdd(o, o, odd);
  }
  if constexpr (sizeof(W) == 2)
    for (; i < n; i += lanes) {
      const auto e = hn::Sub(load_part(d, x + i, n - i, W(0.0f)), c);
      const auto v = hn::IfThenElseZero(first_lanes(d, n - i), e);
      sums = hn::Add(sums, v);
      even = hn::MulAdd(v, v, even);
    }
  T sum = hn::GetLane(hn::SumOfLanes(d, sums));
  T squares = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; ++i) {
    const T e = static_cast<T>(x[i]) - centre;
    sum += e;
    squares = mul_add(e, e, squares);
  }
  return Moments::about(centre, sum, squares, static_cast<double>(n));
}

/// Adds n values to m. Distances are taken to the mean of what m holds; at first, of short runs,
/// which would wait for that, and where squares leave the range of T, to a rough mean of their own.
/// Equal values have a variance of 0, whatever their sum rounds to. 16 bits are summed in f32.
template <class W>
void run_moments(const W* x, int64_t n, Moments& m) {
  using T = formula::Arithmetic<W>;
  for (int64_t at = 0; at < n; at += kRun) {
    const int64_t count = std::min(kRun, n - at);
    const W* from = x + at;
    if (m.count > 0 && n >= kRun) {
      const Moments near = moments_about(static_cast<T>(m.mean), from, count);
      if (std::isfinite(near.squares)) {
        m.merge(near);
        continue;
      }
    }
    const T sum = sum_values<T>(from, count);
    m.merge(moments_about(sum / static_cast<T>(count), from, count));
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
