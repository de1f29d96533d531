// The register tile of products: rows of the left side x panels of 16 outputs, over a depth.
// Include it inside a foreach_target file only.
#if defined(BRIM_RT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_RT_TILE_INL_H_
#undef BRIM_RT_TILE_INL_H_
#else
#define BRIM_RT_TILE_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

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
  const float* ahead;  ///< what is fetched meanwhile: kAhead numbers for each depth
};

/// Four tiles of P panels fetch as many weights as they read, which is slow enough for memory.
template <int P>
constexpr int64_t kAhead = P < 4 ? P* kPanel / 4 : kPanel;

/// What tile number `tile` of those that share weights fetches of what lies at `next` as `w` does.
template <int P>
HWY_INLINE Right fetching(Right w, const float* next, int64_t depth, int64_t tile) {
  const int64_t first = tile * kAhead<P>;
  const bool has_more = first < P * kPanel;
  return {w.data, w.panel,
          has_more ? next + first / kPanel * w.panel + first % kPanel * depth : w.data};
}

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
  static constexpr bool kFetches = false;  // loads are what it waits for
};
struct WholePanel {
  using Tag = TagF;
  static constexpr int kLanesOf = kLanes;
  static constexpr int kVectorsOf = kVectors;
  static constexpr bool kFetches = true;
};

/// For sums that lie in `width` columns, of which not all are outputs.
template <class Panel>
HWY_NOINLINE void finish_part(const float* sums, int rows, int64_t width, const Finish& f) {
  const typename Panel::Tag d;
  constexpr int64_t kStep = Panel::kLanesOf;
  for (int r = 0; r < rows; ++r, sums += width)
    for (int64_t at = 0; at < f.columns; at += kStep) {
      const int64_t to = r * f.y_row + at, count = std::min<int64_t>(f.columns - at, kStep);
      auto sum = hn::LoadU(d, sums + at);
      if (f.residual) sum = hn::Add(sum, load_part(d, f.residual + to, count));
      sum = clip(d, sum, f.low, f.high);
      // What is written behind the outputs of a pixel belongs to the next ones, which follow.
      const bool is_overwritten =
          !f.residual && f.y_row == f.columns && (rows - r) * count >= kStep;
      if (count == kStep || is_overwritten)
        hn::StoreU(sum, d, f.y + to);
      else
        store_part(d, sum, count, f.y + to);
    }
}

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
    const float* HWY_RESTRICT ahead = w.ahead;
    for (int64_t p = 0; p < depth; ++p, ++left, right += kPanel, ahead += kAhead<P>) {
      if constexpr (Panel::kFetches && R > 1) hwy::Prefetch(ahead);
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
  /// Fetches what finish() reads and writes: rows that are far apart.
  static HWY_INLINE void prefetch(const Finish& f) {
    for (int r = 0; r < R; ++r)
      for (int64_t v = 0; v < kAll * kStep; v += kPanel) {
        hwy::Prefetch(f.y + r * f.y_row + v);
        if (f.residual) hwy::Prefetch(f.residual + r * f.y_row + v);
      }
  }
  HWY_INLINE void finish(const Finish& f) {
    const Tag d;
    if (f.columns < kAll * kStep) {
      HWY_ALIGN float all[R * kAll * kStep];
      store(all, kAll * kStep);
      return finish_part<Panel>(all, R, kAll * kStep, f);
    }
    if (f.residual)
      for (int r = 0; r < R; ++r)
        for (int v = 0; v < kAll; ++v)
          sums[r][v] = hn::Add(sums[r][v], hn::LoadU(d, f.residual + r * f.y_row + v * kStep));
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < kAll; ++v)
        hn::StoreU(clip(d, sums[r][v], f.low, f.high), d, f.y + r * f.y_row + v * kStep);
  }
};

/// Rows in as few tiles as can be; where few would be left for the last one it shares those of the
/// one before, since tiles of few rows wait for their sums. `tiles(rows, first)` with rows as a
/// constant.
template <class Tiles>
HWY_INLINE void for_row_tiles(int64_t rows, const Tiles& tiles) {
  for (int64_t at = 0, some; at < rows; at += some) {
    const int64_t left = rows - at, behind = left - kTileRows;
    const bool is_shared = behind > 0 && 2 * behind <= kTileRows;
    some = is_shared ? (left + 1) / 2 : std::min<int64_t>(left, kTileRows);
    switch (some) {
      case 6:
        if constexpr (kTileRows > 5) tiles(std::integral_constant<int, 6>(), at);
        break;
      case 5:
        if constexpr (kTileRows > 4) tiles(std::integral_constant<int, 5>(), at);
        break;
      case 4:
        if constexpr (kTileRows > 3) tiles(std::integral_constant<int, 4>(), at);
        break;
      case 3:
        if constexpr (kTileRows > 2) tiles(std::integral_constant<int, 3>(), at);
        break;
      case 2:
        tiles(std::integral_constant<int, 2>(), at);
        break;
      default:
        tiles(std::integral_constant<int, 1>(), at);
        break;
    }
  }
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
