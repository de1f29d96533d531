// Register tiles of the fused convolution and pooling (see kernels/conv_pool.cpp); included once
// per instruction set.
#include <cstdint>
#include <limits>

#include <hwy/cache_control.h>

#include "backend/cpu/conv/image_layout.h"
#include "backend/fused/fused_conv.h"

#if defined(BRIM_CPU_CONV_POOL_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_CONV_POOL_TILES_INL_H
#undef BRIM_CPU_CONV_POOL_TILES_INL_H
#else
#define BRIM_CPU_CONV_POOL_TILES_INL_H
#endif

// Sums stay in registers only where the loops over them are gone before the compiler looks.
#undef BRIM_UNROLL
#define BRIM_UNROLL HWY_UNROLL(24)

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;
constexpr int64_t kLanes = hn::MaxLanes(F32());

#if HWY_TARGET <= HWY_AVX3
constexpr int kPositionChannels = 6;  // times four indices of a window: 24 sums
constexpr int kTileColumns = 12;      // times two rows: 24 sums
#else
constexpr int kPositionChannels = 3;
constexpr int kTileColumns = 6;
#endif

/// Calls f.template run<N>() with N = n, 1 <= n <= Max.
template <int Max, int N = 1, class F>
HWY_INLINE void with_constant(int64_t n, const F& f) {
  if constexpr (N < Max)
    if (n > N) return with_constant<Max, N + 1>(n, f);
  f.template run<N>();
}

/// The largest of vectors, with its number. The first of equals wins; a NaN wins and stays.
struct RunningMax {
  F32 d;
  V32 best, index;
  bool any = false;

  HWY_INLINE RunningMax()  // the implicit one would not be compiled for the instruction set
      : best(hn::Set(d, -std::numeric_limits<float>::infinity())),
        index(hn::Set(d, backend::kNoIndex)) {}

  HWY_INLINE void consider(V32 v, int64_t number) {
    const auto at = hn::Set(d, static_cast<float>(number));
    const auto wins = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
    best = any ? hn::IfThenElse(wins, v, best) : v;
    index = any ? hn::IfThenElse(wins, at, index) : at;
    any = true;
  }

  /// Through relu, which sends no gradient to what is 0 or below.
  HWY_INLINE void store(bool relu, float* y, uint8_t* marks) const {
    auto value = best, at = index;
    if (relu && any) {
      const auto zero = hn::Zero(d);
      value = hn::IfThenElse(hn::Lt(best, zero), zero, best);  // NaN stays
      at = hn::IfThenElse(hn::Le(best, zero), hn::Set(d, backend::kNoIndex), index);
    }
    hn::StoreU(value, d, y);
    const hn::RebindToUnsigned<F32> du;
    const hn::RebindToSigned<F32> di;
    const hn::Rebind<uint8_t, F32> d8;
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, hn::ConvertTo(di, at))), d8, marks);
  }
};

/// Memory that is wanted soon: on its way to the cache while the tiles compute.
struct Ahead {
  const void* at;
  int64_t bytes;

  HWY_INLINE void fetch(int64_t begin, int64_t count) const {
    for (int64_t i = begin; i < std::min(begin + count, bytes); i += 64)
      hwy::Prefetch(static_cast<const char*>(at) + i);
  }
};

/// Pooled windows of `B` output channels of one image: vectors hold neighbouring windows, four
/// indices of the window at a time.
struct PositionTile {
  const float* image;      // phased planes
  const float* weights;    // (taps, B)
  const float* bias;       // (B)
  const int64_t* offsets;  // (quads, taps, 4): where a tap of each place of the window lies
  int64_t taps, quads, indices;
  int64_t windows, ld;
  bool relu;
  float* y;        // (B, ld)
  uint8_t* marks;  // (B, ld)
  Ahead ahead;     // what is read after this

  template <int B>
  void run() const {
    const F32 d;
    constexpr int kSums = 4 * B;
    const int64_t fetched = ceil_div(ahead.bytes, ceil_div(windows, kLanes));
    for (int64_t p = 0; p < windows; p += kLanes) {
      ahead.fetch(p / kLanes * fetched, fetched);
      RunningMax best[B];
      for (int64_t q = 0; q < quads; ++q) {
        V32 acc[kSums];
        BRIM_UNROLL
        for (int i = 0; i < kSums; ++i) acc[i] = hn::Set(d, bias[i / 4]);
        const float* HWY_RESTRICT from = image + p;
        const float* HWY_RESTRICT w = weights;
        const int64_t* at = offsets + q * taps * 4;
        for (int64_t t = 0; t < taps; ++t, w += B, at += 4) {
          V32 by[B];  // these, the sums and one input are all registers that AVX2 has
          BRIM_UNROLL
          for (int b = 0; b < B; ++b) by[b] = hn::Set(d, w[b]);
          BRIM_UNROLL
          for (int j = 0; j < 4; ++j) {
            const V32 in = hn::LoadU(d, from + at[j]);
            BRIM_UNROLL
            for (int b = 0; b < B; ++b) acc[4 * b + j] = hn::MulAdd(by[b], in, acc[4 * b + j]);
          }
        }
        BRIM_UNROLL
        for (int i = 0; i < kSums; ++i)
          best[i / 4].consider(acc[i], std::min<int64_t>(4 * q + i % 4, indices - 1));
      }
      BRIM_UNROLL
      for (int b = 0; b < B; ++b) best[b].store(relu, y + b * ld + p, marks + b * ld + p);
    }
  }
};

/// `V` vectors of output channels for two rows of P columns: the input is broadcast.
template <int V>
struct ChannelTile {
  const float* image[2];  // the rows' first columns
  const float* weights;   // (1 + taps, V vectors): the bias first
  const int64_t* offsets;
  int64_t taps;
  float* out[2];  // (P, V vectors)

  template <int P>
  void run() const {
    const F32 d;
    constexpr int kRow = P * V, kSums = 2 * kRow;
    V32 acc[kSums];
    BRIM_UNROLL
    for (int i = 0; i < kSums; ++i) acc[i] = hn::LoadU(d, weights + i % V * kLanes);
    const float* HWY_RESTRICT w = weights + V * kLanes;
    for (int64_t t = 0; t < taps; ++t, w += V * kLanes) {
      const float* const x[2] = {image[0] + offsets[t], image[1] + offsets[t]};
      BRIM_UNROLL
      for (int i = 0; i < kSums; ++i)
        acc[i] = hn::MulAdd(hn::Set(d, x[i / kRow][i % kRow / V]), hn::LoadU(d, w + i % V * kLanes),
                            acc[i]);
    }
    BRIM_UNROLL
    for (int i = 0; i < kSums; ++i) hn::StoreU(acc[i], d, out[i / kRow] + i % kRow * kLanes);
  }
};

/// Rows of a convolution with its channels in vectors.
struct ChannelTiles {
  const float* image;
  int64_t image_row, columns;
  const float* weights;
  const int64_t* offsets;
  int64_t taps;
  float* out;  // (rows, columns, channels)

  /// Rows first..last-1 to `out`. Tiles of two rows; where they do not fit, tiles overlap.
  void rows(int64_t vectors, int64_t first, int64_t last) const {
    for (int64_t row = first; row < last; row += 2) {
      const int64_t a = std::max(first, std::min(row, last - 2)), b = std::min(a + 1, last - 1);
      if (vectors == 1)
        two_rows<1>(a, b, first);
      else
        two_rows<2>(a, b, first);
    }
  }

 private:
  template <int V>
  void two_rows(int64_t a, int64_t b, int64_t first) const {
    constexpr int kColumns = kTileColumns / V;
    const int64_t width = ceil_div(columns, ceil_div(columns, kColumns));
    const int64_t channels = V * kLanes;
    for (int64_t column = 0; column < columns; column += width) {
      const int64_t x = std::min(column, columns - width);
      with_constant<kColumns>(width,
                              ChannelTile<V>{{image + a * image_row + x, image + b * image_row + x},
                                             weights,
                                             offsets,
                                             taps,
                                             {out + ((a - first) * columns + x) * channels,
                                              out + ((b - first) * columns + x) * channels}});
    }
  }
};

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
