// layer_norm of short rows of 16-bit floats, and its gradients: some rows at a time are widened in
// the L1 cache. Columns are summed in f32 over few rows, then in f64, in a fixed order. Include it
// inside a foreach_target file only.
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

/// What one thread needs for rows of n numbers. Vectors may be read and written past the end of
/// each array.
struct NarrowGradientScratch {
  static constexpr int64_t kPadding = HWY_MAX_BYTES / sizeof(float);
  float *up, *from, *to;           // `rows` rows, widened
  float *weight_sums, *bias_sums;  // of columns

  /// Rows at a time.
  static int64_t rows(int64_t n) { return std::clamp<int64_t>(kRun / n, 1, kRun); }
  static int64_t numbers(int64_t n) { return (3 * rows(n) + 2) * n + 5 * kPadding; }
  NarrowGradientScratch(float* memory, int64_t n) {
    const int64_t block = rows(n) * n + kPadding;
    up = memory;
    from = up + block;
    to = from + block;
    weight_sums = to + block;
    bias_sums = weight_sums + n + kPadding;
  }
};

/// dx of a row into `to`, and what it adds to the sums of columns. `weight` may be read past its
/// end, too, and `to` is written there.
inline void narrow_row_gradient(const float* up, const float* from, const float* weight, float mean,
                                float scale, int64_t n, float* to, float* weight_sums,
                                float* bias_sums) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean), s = hn::Set(d, scale);
  double sum = 0, dot = 0;
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(n, i + kRun);
    auto sums = hn::Zero(d), dots = sums;
    const auto add = [&](auto g, auto e) HWY_ATTR {
      hn::StoreU(hn::MulAdd(g, hn::Mul(e, s), hn::LoadU(d, weight_sums + i)), d, weight_sums + i);
      hn::StoreU(hn::Add(hn::LoadU(d, bias_sums + i), g), d, bias_sums + i);
      const auto weighted = hn::Mul(g, hn::LoadU(d, weight + i));
      sums = hn::Add(sums, weighted);
      dots = hn::MulAdd(weighted, e, dots);
    };
    for (; i + lanes <= end; i += lanes)
      add(hn::LoadU(d, up + i), hn::Sub(hn::LoadU(d, from + i), m));
    if (i < end) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(end - i));
      add(hn::IfThenElseZero(mask, hn::LoadU(d, up + i)),
          hn::IfThenElseZero(mask, hn::Sub(hn::LoadU(d, from + i), m)));
      i = end;
    }
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums)));
    dot += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, dots)));
  }
  const double count = static_cast<double>(n), sd = static_cast<double>(scale);
  const auto shift = hn::Set(d, static_cast<float>(sd * sum / count));
  const auto slope = hn::Set(d, static_cast<float>(sd * sd * sd * dot / count));
  for (int64_t i = 0; i < n; i += lanes) {
    const auto e = hn::Sub(hn::LoadU(d, from + i), m);
    const auto weighted = hn::Mul(hn::LoadU(d, up + i), hn::LoadU(d, weight + i));
    hn::StoreU(hn::NegMulAdd(slope, e, hn::MulSub(s, weighted, shift)), d, to + i);
  }
}

/// dx of the rows [begin, end) of n numbers, which are stored as W, and the f64 sums of their
/// columns: those of dy (x - mean) scale, then those of dy.
template <class W>
void narrow_rows_gradient(const W* dy, const W* x, const float* weight, const float* mean,
                          const float* scale, int64_t n, int64_t begin, int64_t end, W* dx,
                          const NarrowGradientScratch& scratch, double* sums) {
  constexpr int64_t kRows = 32;  // whose columns are summed in f32
  const int64_t at_once = std::min(scratch.rows(n), kRows);
  std::fill_n(sums, 2 * n, 0.0);
  int64_t summed = 0;
  const auto clear = [&] {
    std::fill_n(scratch.weight_sums, n, 0.0f);
    std::fill_n(scratch.bias_sums, n, 0.0f);
    summed = 0;
  };
  const auto flush = [&] {
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(scratch.weight_sums[i]);
    for (int64_t i = 0; i < n; ++i) sums[n + i] += static_cast<double>(scratch.bias_sums[i]);
    clear();
  };
  clear();
  for (int64_t row = begin; row < end; row += at_once) {
    const int64_t count = std::min(at_once, end - row);
    if (summed + count > kRows) flush();
    convert_run(dy + row * n, scratch.up, count * n);
    convert_run(x + row * n, scratch.from, count * n);
    for (int64_t k = 0; k < count; ++k)
      narrow_row_gradient(scratch.up + k * n, scratch.from + k * n, weight, mean[row + k],
                          scale[row + k], n, scratch.to + k * n, scratch.weight_sums,
                          scratch.bias_sums);
    convert_run(scratch.to, dx + row * n, count * n);
    summed += count;
  }
  flush();
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
