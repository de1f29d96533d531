// layer_norm of rows of 16-bit floats that are not long: some rows at a time are widened in the L1
// cache. Include it inside a foreach_target file only.
#if defined(BRIM_LAYER_NORM_NARROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_LAYER_NORM_NARROW_INL_H_
#undef BRIM_LAYER_NORM_NARROW_INL_H_
#else
#define BRIM_LAYER_NORM_NARROW_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/reduce/moments-inl.h"
#include "backend/cpu/runtime/elements.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kShortNormRow = 512;

/// y, mean and scale of a short row. All may be read, and y written, past their ends.
inline void narrow_short_row(const float* x, const float* w, const float* b, float* y, int64_t n,
                             double eps, float& mean, float& scale) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // term(vector, what keeps of one the numbers in the row)
  const auto each = [&](const auto& term) HWY_ATTR {
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) term(hn::LoadU(d, x + i), [](auto v) { return v; });
    if (i == n) return;
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
    term(hn::LoadU(d, x + i), [&](auto v) HWY_ATTR { return hn::IfThenElseZero(mask, v); });
  };
  auto values = hn::Zero(d), sums = values, squares = values;
  each([&](auto v, auto in_row) HWY_ATTR { values = hn::Add(values, in_row(v)); });
  const float centre = hn::GetLane(hn::SumOfLanes(d, values)) / static_cast<float>(n);
  const auto c = hn::Set(d, centre);
  each([&](auto v, auto in_row) HWY_ATTR {
    const auto e = in_row(hn::Sub(v, c));
    sums = hn::Add(sums, e);
    squares = hn::MulAdd(e, e, squares);
  });
  const Moments moments = Moments::about(
      static_cast<double>(centre), static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums))),
      static_cast<double>(hn::GetLane(hn::SumOfLanes(d, squares))), static_cast<double>(n));
  mean = static_cast<float>(moments.mean);
  scale = static_cast<float>(1 / std::sqrt(moments.var() + eps));
  const auto m = hn::Set(d, mean), s = hn::Set(d, scale);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto unit = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), s);
    hn::StoreU(hn::MulAdd(unit, hn::LoadU(d, w + i), hn::LoadU(d, b + i)), d, y + i);
  }
}

/// The rows [begin, end) of n <= kShortNormRow numbers, which are stored as W; w and b, stored as
/// P, may be null.
template <class W, class P>
void narrow_short_rows(const W* x, const P* w, const P* b, int64_t n, int64_t begin, int64_t end,
                       double eps, W* y, float* mean, float* scale) {
  constexpr int64_t kPadding = HWY_MAX_BYTES / sizeof(float);
  HWY_ALIGN float from[2 * kRun + kPadding], to[2 * kRun + kPadding];
  HWY_ALIGN float weight[kShortNormRow + kPadding], bias[kShortNormRow + kPadding];
  const auto parameter = [&](const P* of, float otherwise, float* wide) {
    std::fill_n(wide, n + kPadding, otherwise);
    if (!of) return;
    if constexpr (sizeof(P) == 2)
      convert_run(of, wide, n);
    else
      std::copy_n(of, n, wide);
  };
  parameter(w, 1, weight);
  parameter(b, 0, bias);
  const int64_t at_once = 2 * kRun / n;
  for (int64_t row = begin; row < end; row += at_once) {
    const int64_t count = std::min(at_once, end - row);
    convert_run(x + row * n, from, count * n);
    for (int64_t k = 0; k < count; ++k)
      narrow_short_row(from + k * n, weight, bias, to + k * n, n, eps, mean[row + k],
                       scale[row + k]);
    convert_run(to, y + row * n, count * n);
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
