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

/// The first `count` numbers of a vector, and zeros.
template <class D>
HWY_INLINE hn::Vec<D> load_part(D d, const float* from, int64_t count) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#else
  HWY_ALIGN float all[kPanel] = {};
  for (int64_t i = 0; i < count; ++i) all[i] = from[i];
  return hn::Load(d, all);
#endif
}
template <class D>
HWY_INLINE void store_part(D d, hn::Vec<D> v, int64_t count, float* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else
  HWY_ALIGN float all[kPanel];
  hn::Store(v, d, all);
  for (int64_t i = 0; i < count; ++i) to[i] = all[i];
#endif
}
HWY_INLINE VecF load_part(const float* from, int64_t count) {
  return load_part(TagF(), from, count);
}
HWY_INLINE void store_part(VecF v, int64_t count, float* to) { store_part(TagF(), v, count, to); }

template <class D>
HWY_INLINE hn::Vec<D> clip(D d, hn::Vec<D> v, float low, float high) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  v = hn::IfThenElse(hn::Lt(v, hn::Set(d, low)), hn::Set(d, low), v);
  return hn::IfThenElse(hn::Gt(v, hn::Set(d, high)), hn::Set(d, high), v);  // NaN stays
#else
  // In this order x86 keeps NaN, as other CPUs do.
  return hn::Min(hn::Set(d, high), hn::Max(hn::Set(d, low), v));
#endif
}
HWY_INLINE VecF clip(VecF v, float low, float high) { return clip(TagF(), v, low, high); }

/// A panel of which only the first half has outputs, in vectors of no more than that.
struct HalfPanel {
  using Tag = hn::CappedTag<float, kPanel / 2>;
  static constexpr int kLanesOf = kLanes < 8 ? kLanes : 8;
  static constexpr int kVectorsOf = static_cast<int>(kPanel / 2) / kLanesOf;
};
struct WholePanel {
  using Tag = TagF;
  static constexpr int kLanesOf = kLanes;
  static constexpr int kVectorsOf = kVectors;
};

/// Sums of R rows and P panels.
template <int R, int P, class Panel = WholePanel>
struct Tile {
  using Tag = typename Panel::Tag;
  using Vec = hn::Vec<Tag>;
  static constexpr int kAll = P * Panel::kVectorsOf;
  static constexpr int64_t kStep = Panel::kLanesOf;
  Vec sums[R][kAll];

  /// Sums begin at `start`, rows `start_row` apart (0: one for all), or at 0.
  HWY_INLINE void load(const float* HWY_RESTRICT start, int64_t start_row) {
    const Tag d;
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kAll; ++v)
        sums[r][v] = start ? hn::LoadU(d, start + r * start_row + v * kStep) : hn::Zero(d);
  }
  HWY_INLINE void add_products(int64_t depth, Left x, Right w) {
    const Tag d;
    const float* HWY_RESTRICT left = x.data;
    const float* HWY_RESTRICT right = w.data;
    for (int64_t p = 0; p < depth; ++p, ++left, right += kPanel) {
      Vec weights[kAll];
      for (int q = 0; q < P; ++q)
        for (int v = 0; v < Panel::kVectorsOf; ++v)
          weights[q * Panel::kVectorsOf + v] = hn::LoadU(d, right + q * w.panel + v * kStep);
      for (int r = 0; r < R; ++r) {
        const Vec value = hn::Set(d, left[r * x.row]);
        for (int v = 0; v < kAll; ++v) sums[r][v] = hn::MulAdd(value, weights[v], sums[r][v]);
      }
    }
  }
  HWY_INLINE void store(float* HWY_RESTRICT to, int64_t row) const {
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kAll; ++v) hn::StoreU(sums[r][v], Tag(), to + r * row + v * kStep);
  }
  HWY_INLINE void finish(const Finish& f) const {
    const Tag d;
    for (int r = 0; r < R; ++r) {
      float* const y = f.y + r * f.y_row;
      const float* const residual = f.residual ? f.residual + r * f.y_row : nullptr;
      for (int v = 0; v < kAll; ++v) {
        const int64_t at = v * kStep, count = f.columns - at;
        if (count <= 0) break;
        Vec sum = sums[r][v];
        if (count >= kStep) {
          if (residual) sum = hn::Add(sum, hn::LoadU(d, residual + at));
          hn::StoreU(clip(d, sum, f.low, f.high), d, y + at);
        } else {
          if (residual) sum = hn::Add(sum, load_part(d, residual + at, count));
          store_part(d, clip(d, sum, f.low, f.high), count, y + at);
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
