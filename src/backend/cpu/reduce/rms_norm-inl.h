// Rows of rms_norm and its gradients, of numbers stored as W and computed in f32, or f64 where they
// are stored as such. Weights may be null. Include it inside a foreach_target file only.
#if defined(BRIM_BACKEND_CPU_RMS_NORM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_RMS_NORM_INL_H
#undef BRIM_BACKEND_CPU_RMS_NORM_INL_H
#else
#define BRIM_BACKEND_CPU_RMS_NORM_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <brim/formula/dense.h>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/map_run-inl.h"
#include "backend/cpu/reduce/row_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

inline constexpr int64_t kSummedTiles = 32;  // of short rows, whose products are summed in f32
/// How far vectors may reach past the end of a row's sums.
template <class T>
constexpr int64_t kSumPadding = HWY_MAX_BYTES / sizeof(T);

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

/// dx = scale (dy w - unit mean(dy w unit)), unit = x scale; dx may be dy. Adds dy unit to `sums`,
/// which vectors read and write past the end, unless it is null.
template <class W, class T>
void rms_norm_grad_row(const W* dy, const W* x, const W* w, int64_t n, T scale, W* dx, T* sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto s = hn::Set(d, scale);
  const auto add = [&](auto g, auto v, int64_t i, const auto& weighted, auto sum) HWY_ATTR {
    const auto product = hn::Mul(g, v);
    if (sums) hn::StoreU(hn::MulAdd(product, s, hn::LoadU(d, sums + i)), d, sums + i);
    return hn::Add(sum, weighted(product));
  };
  const double dot = sum_in_blocks<T>(n, [&](int64_t i, int64_t count, auto& sum) HWY_ATTR {
    const int64_t end = i + count;
    for (; i + lanes <= end; i += lanes)
      sum = add(
          load(d, dy + i), load(d, x + i), i,
          [&](auto product) HWY_ATTR { return w ? hn::Mul(product, load(d, w + i)) : product; },
          sum);
    if (hn::MaxLanes(d) == 1 || i == end) return;
    const auto rest = [&](const W* of) HWY_ATTR { return load_part(d, of + i, end - i, W(0.0f)); };
    sum = add(
        rest(dy), rest(x), i,
        [&](auto product) HWY_ATTR { return w ? hn::Mul(product, rest(w)) : product; }, sum);
  });
  const double wide = static_cast<double>(scale);
  const auto slope = hn::Set(d, static_cast<T>(wide * wide * wide * dot / static_cast<double>(n)));
  map_run<3>({dy, x, w}, n, dx, [&](const W* const(&p)[3], int64_t i) HWY_ATTR {
    const auto g = hn::Mul(load(d, p[0] + i), s);
    return hn::NegMulAdd(slope, load(d, p[1] + i), p[2] ? hn::Mul(g, load(d, p[2] + i)) : g);
  });
}

/// Short rows, kColumns at most, as columns of a tile of T, and back.
template <class W, class T>
void rows_to_tile(const W* rows, int64_t n, int64_t count, T* tile) {
  if constexpr (std::is_same_v<W, T>) {
    to_columns(rows, n, count, tile);
  } else {
    HWY_ALIGN T wide[kShortRow * kColumns];
    convert_run(rows, wide, n * count);
    to_columns(wide, n, count, tile);
  }
}
template <class W, class T>
void tile_to_rows(const T* tile, int64_t n, int64_t count, W* rows) {
  if constexpr (std::is_same_v<W, T>) {
    to_rows(tile, n, count, rows);
  } else {
    HWY_ALIGN T wide[kShortRow * kColumns];
    to_rows(tile, n, count, wide);
    convert_run(wide, rows, n * count);
  }
}

template <class W, class T>
T weight_at(const W* w, int64_t j) {
  return w ? static_cast<T>(w[j]) : T(1);
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
    const T factor = weight_at<W, T>(w, j);
    for (int64_t c = 0; c < count; ++c) tile[j * kColumns + c] *= scale[c] * factor;
  }
  tile_to_rows(tile, n, count, y);
}

/// As rms_norm_grad_row, of `count` rows; what the weight's gradient sums is added to a tile.
template <class W, class T>
void rms_norm_grad_short_rows(const W* dy, const W* x, const W* w, int64_t n, int64_t count,
                              const T* HWY_RESTRICT scale, W* dx, T* HWY_RESTRICT sums) {
  HWY_ALIGN T up[kShortRow * kColumns], from[kShortRow * kColumns];
  HWY_ALIGN T dot[kColumns] = {}, slope[kColumns];
  rows_to_tile(dy, n, count, up);
  rows_to_tile(x, n, count, from);
  for (int64_t j = 0; j < n; ++j) {
    const T factor = weight_at<W, T>(w, j);
    const int64_t at = j * kColumns;
    for (int64_t c = 0; c < count; ++c) {
      const T product = up[at + c] * from[at + c];
      sums[at + c] += product * scale[c];
      dot[c] += product * factor;
    }
  }
  for (int64_t c = 0; c < count; ++c) {
    const double s = static_cast<double>(scale[c]);
    slope[c] = static_cast<T>(s * s * s * static_cast<double>(dot[c]) / static_cast<double>(n));
  }
  for (int64_t j = 0; j < n; ++j) {
    const T factor = weight_at<W, T>(w, j);
    const int64_t at = j * kColumns;
    for (int64_t c = 0; c < count; ++c)
      up[at + c] = up[at + c] * scale[c] * factor - slope[c] * from[at + c];
  }
  tile_to_rows(up, n, count, dx);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
