// Gradients of layer_norm's rows, and short rows of it, of numbers stored as W and computed in f32,
// or f64 where they are stored as such. Weights and biases may be null. Include it inside a
// foreach_target file only.
#if defined(BRIM_BACKEND_CPU_LAYER_NORM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_LAYER_NORM_INL_H
#undef BRIM_BACKEND_CPU_LAYER_NORM_INL_H
#else
#define BRIM_BACKEND_CPU_LAYER_NORM_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/cpu/elementwise/map_run-inl.h"
#include "backend/cpu/reduce/moments-inl.h"
#include "backend/cpu/reduce/row_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// Rows of x (rows, n) and what belongs to them. residual may be null, and dx may be it.
template <class W, class T>
struct LayerNormGradient {
  static constexpr int64_t kParameters = 2;  // sums of dy (x - mean) scale, then of dy

  const W *dy, *x, *w, *residual;
  const T *mean, *scale;
  W* dx;
  int64_t n;

  /// dx = scale (g - mean(g) - unit mean(g unit)), g = dy w, unit = (x - mean) scale, and the
  /// residual. Adds to sums of columns, which vectors read and write past their ends.
  void row(int64_t r, T* weight_sums, int64_t size) const {
    T* const bias_sums = weight_sums + size;
    const hn::ScalableTag<T> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), at = r * n;
    const W *const up = dy + at, *const from = x + at;
    const auto m = hn::Set(d, mean[r]), s = hn::Set(d, scale[r]);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < n;) {
      const int64_t end = std::min(n, i + kSummed);
      auto sums = hn::Zero(d), dots = sums;
      const auto add = [&](auto g, auto e, auto factor) HWY_ATTR {
        hn::StoreU(hn::MulAdd(g, hn::Mul(e, s), hn::LoadU(d, weight_sums + i)), d, weight_sums + i);
        hn::StoreU(hn::Add(hn::LoadU(d, bias_sums + i), g), d, bias_sums + i);
        const auto weighted = hn::Mul(g, factor);
        sums = hn::Add(sums, weighted);
        dots = hn::MulAdd(weighted, e, dots);
      };
      for (; i + lanes <= end; i += lanes)
        add(load(d, up + i), hn::Sub(load(d, from + i), m), w ? load(d, w + i) : hn::Set(d, 1));
      if (hn::MaxLanes(d) > 1 && i < end) {
        const auto rest = [&](const W* of)
                              HWY_ATTR { return load_part(d, of + i, end - i, W(0.0f)); };
        const auto in_row = hn::FirstN(d, static_cast<size_t>(end - i));
        add(rest(up), hn::IfThenElseZero(in_row, hn::Sub(rest(from), m)),
            w ? rest(w) : hn::Set(d, 1));
        i = end;
      }
      sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sums)));
      dot += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, dots)));
    }
    const auto shift = hn::Set(d, shift_of(scale[r], sum));
    const auto slope = hn::Set(d, slope_of(scale[r], dot));
    const W* const more = residual ? residual + at : nullptr;
    map_run<4>({up, from, w, more}, n, dx + at, [&](const W* const(&p)[4], int64_t i) HWY_ATTR {
      const auto g = load(d, p[0] + i);
      const auto weighted = p[2] ? hn::Mul(g, load(d, p[2] + i)) : g;
      const auto e = hn::Sub(load(d, p[1] + i), m);
      const auto result = hn::NegMulAdd(slope, e, hn::MulSub(s, weighted, shift));
      return p[3] ? hn::Add(load(d, p[3] + i), result) : result;
    });
  }

  /// The same of `count` short rows; the sums are tiles.
  void short_rows(int64_t r, int64_t count, T* weights, int64_t size) const {
    T *const HWY_RESTRICT weight_sums = weights, *const HWY_RESTRICT bias_sums = weights + size;
    HWY_ALIGN T up[kShortRow * kColumns], from[kShortRow * kColumns];
    HWY_ALIGN T sum[kColumns] = {}, dot[kColumns] = {}, shift[kColumns], slope[kColumns];
    const T *const m = mean + r, *const s = scale + r;
    rows_to_tile(dy + r * n, n, count, up);
    rows_to_tile(x + r * n, n, count, from);
    for (int64_t j = 0; j < n; ++j) {
      const T factor = parameter_at<W, T>(w, j, 1);
      for (int64_t c = 0, i = j * kColumns; c < count; ++c, ++i) {
        const T g = up[i], e = from[i] - m[c], weighted = g * factor;
        weight_sums[i] += g * (e * s[c]);
        bias_sums[i] += g;
        sum[c] += weighted;
        dot[c] += weighted * e;
        from[i] = e;
      }
    }
    for (int64_t c = 0; c < count; ++c) {
      shift[c] = shift_of(s[c], static_cast<double>(sum[c]));
      slope[c] = slope_of(s[c], static_cast<double>(dot[c]));
    }
    for (int64_t j = 0; j < n; ++j) {
      const T factor = parameter_at<W, T>(w, j, 1);
      for (int64_t c = 0, i = j * kColumns; c < count; ++c, ++i)
        up[i] = s[c] * (up[i] * factor) - slope[c] * from[i] - shift[c];
    }
    if (residual) {
      rows_to_tile(residual + r * n, n, count, from);
      for (int64_t j = 0; j < n; ++j)
        for (int64_t c = 0, i = j * kColumns; c < count; ++c, ++i) up[i] = from[i] + up[i];
    }
    tile_to_rows(up, n, count, dx + r * n);
  }

 private:
  T shift_of(T s, double sum) const {
    return static_cast<T>(static_cast<double>(s) * sum / static_cast<double>(n));
  }
  T slope_of(T s, double dot) const {
    const double wide = static_cast<double>(s);
    return static_cast<T>(wide * wide * wide * dot / static_cast<double>(n));
  }
};

/// y = (x - mean) scale w + b of `count` short rows, mean and scale.
template <class W, class P, class T>
void layer_norm_short_rows(const W* x, const P* w, const P* b, int64_t n, int64_t count, double eps,
                           W* y, T* HWY_RESTRICT mean, T* HWY_RESTRICT scale) {
  HWY_ALIGN T tile[kShortRow * kColumns];
  HWY_ALIGN T centre[kColumns] = {}, sum[kColumns] = {}, squares[kColumns] = {};
  rows_to_tile(x, n, count, tile);
  const T share = 1 / static_cast<T>(n);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t c = 0, i = j * kColumns; c < count; ++c, ++i) centre[c] += tile[i];
  for (int64_t c = 0; c < count; ++c) centre[c] *= share;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t c = 0, i = j * kColumns; c < count; ++c, ++i) {
      const T e = tile[i] - centre[c];
      sum[c] += e;
      squares[c] += e * e;
    }
  for (int64_t c = 0; c < count; ++c) {
    const Moments moments =
        Moments::about(static_cast<double>(centre[c]), static_cast<double>(sum[c]),
                       static_cast<double>(squares[c]), static_cast<double>(n));
    mean[c] = static_cast<T>(moments.mean);
    scale[c] = static_cast<T>(1 / std::sqrt(moments.var() + eps));
  }
  for (int64_t j = 0; j < n; ++j) {
    const T factor = parameter_at<P, T>(w, j, 1), shift = parameter_at<P, T>(b, j, 0);
    for (int64_t c = 0, i = j * kColumns; c < count; ++c, ++i)
      tile[i] = (tile[i] - mean[c]) * scale[c] * factor + shift;
  }
  tile_to_rows(tile, n, count, y);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
