// Rows of rms_norm and its gradients, of numbers stored as W and computed in f32, or f64 where they
// are stored as such. Weights may be null. Include it inside a foreach_target file only.
#if defined(BRIM_BACKEND_CPU_RMS_NORM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_RMS_NORM_INL_H
#undef BRIM_BACKEND_CPU_RMS_NORM_INL_H
#else
#define BRIM_BACKEND_CPU_RMS_NORM_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include <brim/formula/dense.h>

#include "backend/cpu/elementwise/map_run-inl.h"
#include "backend/cpu/reduce/row_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// 1 / sqrt(mean(x^2) + eps)
template <class T>
T rms_scale(double squares, int64_t n, double eps) {
  return static_cast<T>(1 / std::sqrt(squares / static_cast<double>(n) + eps));
}

/// y = x scale w
template <class W, class T>
void rms_norm_row(const W* x, const W* w, int64_t n, double eps, W* y, T& scale) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const double squares = sum_in_blocks<T>(n, [&](int64_t i, int64_t count, auto& even) HWY_ATTR {
    const int64_t end = i + count;
    auto odd = hn::Zero(d);
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const auto a = load(d, x + i), b = load(d, x + i + lanes);
      even = hn::MulAdd(a, a, even);
      odd = hn::MulAdd(b, b, odd);
    }
    for (; i < end; i += lanes) {
      const auto v = load_part(d, x + i, end - i, W(0.0f));
      even = hn::MulAdd(v, v, even);
    }
    even = hn::Add(even, odd);
  });
  scale = rms_scale<T>(squares, n, eps);
  const auto s = hn::Set(d, scale);
  map_run<2>({x, w}, n, y, [&](const W* const(&p)[2], int64_t i) HWY_ATTR {
    const auto unit = hn::Mul(load(d, p[0] + i), s);
    return p[1] ? hn::Mul(unit, load(d, p[1] + i)) : unit;
  });
}

/// As rms_norm_row, of `count` rows.
template <class W, class T>
void rms_norm_short_rows(const W* x, const W* w, int64_t n, int64_t count, double eps, W* y,
                         T* HWY_RESTRICT scale) {
  HWY_ALIGN T tile[kShortRow * kColumns], squares[kColumns] = {};
  rows_to_tile(x, n, count, tile);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t c = 0; c < count; ++c)
      squares[c] += tile[j * kColumns + c] * tile[j * kColumns + c];
  for (int64_t c = 0; c < count; ++c)
    scale[c] = rms_scale<T>(static_cast<double>(squares[c]), n, eps);
  for (int64_t j = 0; j < n; ++j) {
    const T factor = parameter_at<W, T>(w, j, 1);
    for (int64_t c = 0; c < count; ++c) tile[j * kColumns + c] *= scale[c] * factor;
  }
  tile_to_rows(tile, n, count, y);
}

/// Rows of x (rows, n) and what belongs to them; dx may be dy.
template <class W, class T>
struct RmsNormGradient {
  static constexpr int64_t kParameters = 1;  // sums of dy unit

  const W *dy, *x, *w;
  const T* scale;
  W* dx;
  int64_t n;

  /// dx = scale (dy w - unit mean(dy w unit)), unit = x scale. Adds to sums of columns, which
  /// vectors read and write past the end.
  void row(int64_t r, T* sums, int64_t) const {
    const hn::ScalableTag<T> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), at = r * n;
    const W *const up = dy + at, *const from = x + at;
    const auto s = hn::Set(d, scale[r]);
    const double dot = sum_in_blocks<T>(n, [&](int64_t i, int64_t count, auto& sum) HWY_ATTR {
      const int64_t end = i + count;
      const auto add = [&](auto g, auto v, auto factor) HWY_ATTR {
        const auto product = hn::Mul(g, v);
        hn::StoreU(hn::MulAdd(product, s, hn::LoadU(d, sums + i)), d, sums + i);
        sum = hn::MulAdd(product, factor, sum);
      };
      for (; i + lanes <= end; i += lanes)
        add(load(d, up + i), load(d, from + i), w ? load(d, w + i) : hn::Set(d, 1));
      if (hn::MaxLanes(d) == 1 || i == end) return;
      const auto rest = [&](const W* of)
                            HWY_ATTR { return load_part(d, of + i, end - i, W(0.0f)); };
      add(rest(up), rest(from), w ? rest(w) : hn::Set(d, 1));
    });
    const auto slope = hn::Set(d, slope_of(scale[r], dot));
    map_run<3>({up, from, w}, n, dx + at, [&](const W* const(&p)[3], int64_t i) HWY_ATTR {
      const auto g = hn::Mul(load(d, p[0] + i), s);
      return hn::NegMulAdd(slope, load(d, p[1] + i), p[2] ? hn::Mul(g, load(d, p[2] + i)) : g);
    });
  }

  /// The same of `count` short rows; the sums are a tile.
  void short_rows(int64_t r, int64_t count, T* HWY_RESTRICT sums, int64_t) const {
    HWY_ALIGN T up[kShortRow * kColumns], from[kShortRow * kColumns];
    HWY_ALIGN T dot[kColumns] = {}, slope[kColumns];
    const T* const s = scale + r;
    rows_to_tile(dy + r * n, n, count, up);
    rows_to_tile(x + r * n, n, count, from);
    for (int64_t j = 0; j < n; ++j) {
      const T factor = parameter_at<W, T>(w, j, 1);
      for (int64_t c = 0, i = j * kColumns; c < count; ++c, ++i) {
        const T product = up[i] * from[i];
        sums[i] += product * s[c];
        dot[c] += product * factor;
      }
    }
    for (int64_t c = 0; c < count; ++c) slope[c] = slope_of(s[c], static_cast<double>(dot[c]));
    for (int64_t j = 0; j < n; ++j) {
      const T factor = parameter_at<W, T>(w, j, 1);
      for (int64_t c = 0, i = j * kColumns; c < count; ++c, ++i)
        up[i] = up[i] * s[c] * factor - slope[c] * from[i];
    }
    tile_to_rows(up, n, count, dx + r * n);
  }

 private:
  T slope_of(T s, double dot) const {
    const double wide = static_cast<double>(s);
    return static_cast<T>(wide * wide * wide * dot / static_cast<double>(n));
  }
};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
