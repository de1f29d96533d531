// The register tile of products: rows of the left side x panels of 16 outputs, over a depth.
// Include it inside a foreach_target file only.
#if defined(BRIM_RT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_RT_TILE_INL_H_
#undef BRIM_RT_TILE_INL_H_
#else
#define BRIM_RT_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include "rt/kernels/convolution.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using TagF = hn::CappedTag<float, kPanel>;
using VecF = hn::Vec<TagF>;

// A panel is kVectors vectors. kTileRows x kWide accumulators fit into the registers, one row with
// kTall panels, too.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
constexpr int kLanes = HWY_TARGET == HWY_SCALAR ? 1 : 4;
constexpr int kTileRows = 2, kWide = 1, kTall = 1;
#elif HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
constexpr int kLanes = 16;
constexpr int kTileRows = 6, kWide = 4, kTall = 8;
#elif HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
constexpr int kLanes = 8;
constexpr int kTileRows = 6, kWide = 1, kTall = 4;
#else
constexpr int kLanes = 4;
constexpr int kTileRows = HWY_ARCH_X86 ? 3 : 6, kWide = 1, kTall = HWY_ARCH_X86 ? 2 : 4;
#endif
constexpr int kVectors = static_cast<int>(kPanel) / kLanes;

/// What becomes of the sums of a tile: y = clip(sums + residual), only its first columns.
struct Finish {
  float* y;
  int64_t y_row;
  const float* residual;  // rows as y's; null: none
  int64_t columns;
  float low, high;
};

/// The left side: rows `row` apart.
struct Left {
  const float* data;
  int64_t row;
};

/// Weights of a panel from one depth on, and how far away the next panel's are.
struct Right {
  const float* data;
  int64_t panel;
};

/// The first `count` < kLanes numbers, and zeros.
HWY_INLINE VecF load_part(const float* from, int64_t count) {
  const TagF d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#else
  HWY_ALIGN float all[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) all[i] = from[i];
  return hn::Load(d, all);
#endif
}
HWY_INLINE void store_part(VecF v, int64_t count, float* to) {
  const TagF d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else
  HWY_ALIGN float all[kLanes];
  hn::Store(v, d, all);
  for (int64_t i = 0; i < count; ++i) to[i] = all[i];
#endif
}

HWY_INLINE VecF clip(VecF v, float low, float high) {
  const TagF d;
  // In this order x86 keeps NaN, as other CPUs do.
  return hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), v));
}

/// Sums of R rows and P panels that start at `start` (rows `start_row` apart; 0: one for all).
template <int R, int P>
struct Tile {
  VecF sums[R][P * kVectors];

  HWY_INLINE void load(const float* HWY_RESTRICT start, int64_t start_row) {
    const TagF d;
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < P * kVectors; ++v)
        sums[r][v] = start ? hn::LoadU(d, start + r * start_row + v * kLanes) : hn::Zero(d);
  }
  HWY_INLINE void add_products(int64_t depth, Left x, Right w) {
    const TagF d;
    const float* HWY_RESTRICT left = x.data;
    const float* HWY_RESTRICT right = w.data;
    for (int64_t p = 0; p < depth; ++p, ++left, right += kPanel) {
      VecF weights[P * kVectors];
      for (int q = 0; q < P; ++q)
        for (int v = 0; v < kVectors; ++v)
          weights[q * kVectors + v] = hn::LoadU(d, right + q * w.panel + v * kLanes);
      for (int r = 0; r < R; ++r) {
        const VecF value = hn::Set(d, left[r * x.row]);
        for (int v = 0; v < P * kVectors; ++v)
          sums[r][v] = hn::MulAdd(value, weights[v], sums[r][v]);
      }
    }
  }
  HWY_INLINE void store(float* HWY_RESTRICT to, int64_t row) const {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < P * kVectors; ++v)
        hn::StoreU(sums[r][v], TagF(), to + r * row + v * kLanes);
  }
  HWY_INLINE void finish(const Finish& f) const {
    const TagF d;
    constexpr int64_t kColumns = P * kPanel;
    for (int r = 0; r < R; ++r) {
      float* y = f.y + r * f.y_row;
      const float* residual = f.residual ? f.residual + r * f.y_row : nullptr;
      if (f.columns >= kColumns) {
        for (int v = 0; v < P * kVectors; ++v) {
          VecF sum = sums[r][v];
          if (residual) sum = hn::Add(sum, hn::LoadU(d, residual + v * kLanes));
          hn::StoreU(clip(sum, f.low, f.high), d, y + v * kLanes);
        }
        continue;
      }
      for (int v = 0; v < P * kVectors; ++v) {
        const int64_t at = v * kLanes, count = f.columns - at;
        if (count <= 0) break;
        VecF sum = sums[r][v];
        if (count >= kLanes) {
          if (residual) sum = hn::Add(sum, hn::LoadU(d, residual + at));
          hn::StoreU(clip(sum, f.low, f.high), d, y + at);
        } else {
          if (residual) sum = hn::Add(sum, load_part(residual + at, count));
          store_part(clip(sum, f.low, f.high), count, y + at);
        }
      }
    }
  }
};

/// As many rows as a tile has, and then the others: `tiles(rows, first)` with rows as a constant.
template <class Tiles>
HWY_INLINE void for_row_tiles(int64_t rows, const Tiles& tiles) {
  int64_t at = 0;
  for (; at + kTileRows <= rows; at += kTileRows)
    tiles(std::integral_constant<int, kTileRows>(), at);
  switch (rows - at) {
    case 5:
      if constexpr (kTileRows > 5) tiles(std::integral_constant<int, 5>(), at);
      break;
    case 4:
      if constexpr (kTileRows > 4) tiles(std::integral_constant<int, 4>(), at);
      break;
    case 3:
      if constexpr (kTileRows > 3) tiles(std::integral_constant<int, 3>(), at);
      break;
    case 2:
      if constexpr (kTileRows > 2) tiles(std::integral_constant<int, 2>(), at);
      break;
    case 1:
      tiles(std::integral_constant<int, 1>(), at);
      break;
    default:
      break;
  }
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
