// What the fused kernels of convolution + bias + relu + max pooling share: sizes as kernels use
// them, and the tiles of images that they keep in shared memory.
#pragma once

#include <cstdint>

#include "backend/cuda/device/async_copy.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/reduce/reduce.cuh"
#include "backend/fused/fused_conv.h"

namespace brim::cuda {

/// Shared memory that these kernels take: what every GPU grants without being asked.
constexpr int64_t kConvPoolShared = 48 << 10;

struct IntPair {
  int h, w;
  IntPair() = default;
  explicit IntPair(Pair p) : h(static_cast<int>(p.h)), w(static_cast<int>(p.w)) {}
};

/// A ConvPool of ints; channels and outputs are those of one group.
struct ConvPoolSizes {
  int n, channels, h, w, outputs, kh, kw, oh, ow, groups, ph, pw;
  IntPair stride, padding, dilation, window, step, margin, spread;  // the last four: of the pool
  bool relu;

  explicit ConvPoolSizes(const backend::ConvPool& g)
      : n(static_cast<int>(g.conv.n)),
        channels(static_cast<int>(g.conv.c_per_group())),
        h(static_cast<int>(g.conv.h)),
        w(static_cast<int>(g.conv.w)),
        outputs(static_cast<int>(g.conv.o_per_group())),
        kh(static_cast<int>(g.conv.kh)),
        kw(static_cast<int>(g.conv.kw)),
        oh(static_cast<int>(g.conv.oh)),
        ow(static_cast<int>(g.conv.ow)),
        groups(static_cast<int>(g.conv.groups)),
        ph(static_cast<int>(g.pool.oh)),
        pw(static_cast<int>(g.pool.ow)),
        stride(g.conv.stride),
        padding(g.conv.padding),
        dilation(g.conv.dilation),
        window(g.pool.kernel),
        step(g.pool.stride),
        margin(g.pool.padding),
        spread(g.pool.dilation),
        relu(g.relu) {}

  __host__ __device__ int taps() const { return kh * kw; }
  int windows() const { return ph * pw; }

  /// The size of the square kernel if it is `3` or `5`, its steps are 1 and the pool's windows are
  /// 2 x 2 side by side: what has kernels of its own. Else 0.
  int fast_kernel() const {
    const auto is = [](IntPair p, int value) { return p.h == value && p.w == value; };
    const bool plain = is(stride, 1) && is(dilation, 1) && is(window, 2) && is(step, 2) &&
                       is(margin, 0) && is(spread, 1) && 2 * ph <= oh && 2 * pw <= ow && kh == kw;
    return plain && (kh == 3 || kh == 5) ? kh : 0;
  }
};

/// Activations (n, c, y, x) by their strides, in elements.
template <class T>
struct ImageView {
  T* data;
  int64_t n, c, y, x;

  explicit ImageView(const Tensor& t)
      : data(static_cast<T*>(t.raw())),
        n(t.strides()[0]),
        c(t.strides()[1]),
        y(t.strides()[2]),
        x(t.strides()[3]) {}
  __device__ T& at(int in, int ic, int iy, int ix) const {
    return data[in * n + ic * c + iy * y + ix * x];
  }
};

/// How rows of images go to shared memory, with their padding: `pitch` numbers a row, copied
/// `width` at a time.
struct TileRows {
  int pitch, width;
  Divisor packs;  // of a row

  TileRows() = default;
  TileRows(const ConvPoolSizes& s, const Tensor& x) {
    pitch = (s.w + 2 * s.padding.w + 1) / 2 * 2;  // even: pairs are loaded
    const auto fits = [&](int64_t by) {
      const Strides& t = x.strides();
      return s.padding.w == 0 && t[3] == 1 && s.w % by == 0 && t[0] % by == 0 && t[1] % by == 0 &&
             t[2] % by == 0 && reinterpret_cast<uintptr_t>(x.raw()) % (4 * by) == 0;
    };
    width = fits(4) ? 4 : fits(2) ? 2 : 1;
    packs = Divisor(static_cast<uint32_t>(pitch / width));
  }
};

/// Starts copying `rows` rows of `planes` planes from (n, c, y, -padding) on to `tile`, (planes,
/// rows, pitch); zeros outside of the image. All threads of the block take part.
template <int kWidth>
__device__ inline void load_packs(const ImageView<const float>& x, const ConvPoolSizes& s,
                                  const TileRows& tile_rows, int n, int c, int planes, int y,
                                  int rows, float* tile) {
  const int per_row = tile_rows.pitch / kWidth;
  const int count = planes * rows * per_row;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int row = static_cast<int>(tile_rows.packs.quotient(static_cast<uint32_t>(i)));
    const int ix = (i - row * per_row) * kWidth - s.padding.w;
    const int plane = row / rows, iy = y + row - plane * rows;
    float* const to = tile + row * tile_rows.pitch + ix + s.padding.w;
    if (iy >= 0 && iy < s.h && ix >= 0 && ix < s.w)
      copy_async<4 * kWidth>(to, &x.at(n, c + plane, iy, ix));
    else
      for (int k = 0; k < kWidth; ++k) to[k] = 0;
  }
}

__device__ inline void load_rows(const ImageView<const float>& x, const ConvPoolSizes& s,
                                 const TileRows& tile_rows, int n, int c, int planes, int y,
                                 int rows, float* tile) {
  if (tile_rows.width == 4)
    load_packs<4>(x, s, tile_rows, n, c, planes, y, rows, tile);
  else if (tile_rows.width == 2)
    load_packs<2>(x, s, tile_rows, n, c, planes, y, rows, tile);
  else
    load_packs<1>(x, s, tile_rows, n, c, planes, y, rows, tile);
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t to) { return ceil_div(a, to) * to; }

}  // namespace brim::cuda
