// Convolutions as matrix products (gemm.cuh) whose operands are read where they lie: no image is
// unfolded in memory. Rows and columns of the products are channels, pixels (n, y, x) and taps
// (c, ky, kx). Activations may be of any strides; where they are nhwc, taps have their channels
// innermost, so that neighbours in a sum are neighbours in memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cuda/device/divisor.cuh"
#include "backend/cuda/gemm/gemm.cuh"
#include "backend/options/geometry.h"

namespace brim::cuda {

/// Activations (n, c, y, x), or weights (o, c, ky, kx), by their strides, in elements.
template <class T, class Index>
struct Activations {
  T* data;
  Index n, c, y, x;
  bool channels_last;

  explicit Activations(const Tensor& t)
      : data(static_cast<T*>(t.raw())),
        n(static_cast<Index>(t.strides()[0])),
        c(static_cast<Index>(t.strides()[1])),
        y(static_cast<Index>(t.strides()[2])),
        x(static_cast<Index>(t.strides()[3])),
        channels_last(t.strides()[1] < t.strides()[3]) {}
};

/// The pixels (n, height, width): their positions taken apart.
template <class Index>
struct Pixels {
  DivideBy<Index> height, width;

  struct Pixel {
    Index n, y, x;
  };
  __device__ Pixel operator()(Index p) const {
    const Split<Index> row(p, width), image(row.quotient, height);
    return {image.quotient, image.rest, row.rest};
  }
};

/// The taps (channels, kh, kw), or (kh, kw, channels).
template <class Index>
struct Taps {
  DivideBy<Index> channels, kh, kw;
  bool channels_last;

  struct Tap {
    Index c, ky, kx;
  };
  __device__ Tap operator()(Index p) const {
    if (channels_last) {
      const Split<Index> at(p, channels), row(at.quotient, kw);
      return {at.rest, row.quotient, row.rest};
    }
    const Split<Index> row(p, kw), channel(row.quotient, kh);
    return {channel.quotient, channel.rest, row.rest};
  }
};

/// What a tap of a pixel sees. Of the input, for pixels of the output: y * stride - padding +
/// ky * dilation; kTransposed: of the output, for pixels of the input, the inverse of that.
template <class T, class Index, bool kTransposed>
struct Patches {
  Activations<const T, Index> from;
  Index height, width;  // of `from`
  Pixels<Index> pixels;
  DivideBy<Index> stride_h, stride_w;
  Index padding_h, padding_w, dilation_h, dilation_w;
  Taps<Index> taps;

  Patches(const Tensor& x, const backend::ConvGeometry& g)
      : from(x),
        height(static_cast<Index>(x.shape()[2])),
        width(static_cast<Index>(x.shape()[3])),
        pixels{DivideBy<Index>(kTransposed ? g.h : g.oh),
               DivideBy<Index>(kTransposed ? g.w : g.ow)},
        stride_h(g.stride.h),
        stride_w(g.stride.w),
        padding_h(static_cast<Index>(g.padding.h)),
        padding_w(static_cast<Index>(g.padding.w)),
        dilation_h(static_cast<Index>(g.dilation.h)),
        dilation_w(static_cast<Index>(g.dilation.w)),
        taps{DivideBy<Index>(kTransposed ? g.o_per_group() : g.c_per_group()),
             DivideBy<Index>(g.kh), DivideBy<Index>(g.kw), from.channels_last} {}

  /// Of a pixel and of a tap; added, they say what is seen and where it lies.
  struct Place {
    Index offset, y, x;
  };
  __device__ Place pixel(Index i) const {
    const auto p = pixels(i);
    const Index offset = p.n * from.n;
    if constexpr (kTransposed) {
      return {offset, p.y + padding_h, p.x + padding_w};
    } else {
      const Index y = p.y * stride_h.size() - padding_h, x = p.x * stride_w.size() - padding_w;
      return {offset + y * from.y + x * from.x, y, x};
    }
  }
  __device__ Place tap(Index p) const {
    const auto t = taps(p);
    const Index offset = t.c * from.c, y = t.ky * dilation_h, x = t.kx * dilation_w;
    if constexpr (kTransposed)
      return {offset, -y, -x};
    else
      return {offset + y * from.y + x * from.x, y, x};
  }
  __device__ Compute<T> value(const T* data, const Place& pixel, const Place& tap) const {
    Index y = pixel.y + tap.y, x = pixel.x + tap.x, offset = pixel.offset + tap.offset;
    if (y < 0 || x < 0) return 0;
    if constexpr (kTransposed) {
      const Split<Index> row(y, stride_h), column(x, stride_w);
      if (row.rest != 0 || column.rest != 0) return 0;
      y = row.quotient, x = column.quotient;
      offset += y * from.y + x * from.x;
    }
    return y < height && x < width ? widen(data[offset]) : Compute<T>(0);
  }
};

/// Patches as an operand: a row for each pixel and the sum over the taps, or the other way round.
template <class T, class Index_, bool kTransposed, bool kByTap>
struct PatchRows {
  using Index = Index_;
  using Place = typename Patches<T, Index, kTransposed>::Place;
  Patches<T, Index, kTransposed> patches;
  const T* data;
  bool along_sum;

  explicit PatchRows(const Patches<T, Index, kTransposed>& p)
      : patches(p), data(p.from.data), along_sum(p.taps.channels_last != kByTap) {}
  __device__ Place row(Index i) const { return kByTap ? patches.tap(i) : patches.pixel(i); }
  __device__ Place column(Index p) const { return kByTap ? patches.pixel(p) : patches.tap(p); }
  __device__ Compute<T> at(const T* from, const Place& row, const Place& column) const {
    return kByTap ? patches.value(from, column, row) : patches.value(from, row, column);
  }
};
template <class T, class Index, bool kTransposed>
using PixelRows = PatchRows<T, Index, kTransposed, false>;
template <class T, class Index>
using TapRows = PatchRows<T, Index, false, true>;

/// Weights (o, c, kh, kw) as an operand: a row for each channel of one side, the sum over the taps
/// of the other's.
template <class T, class Index_>
struct Weights {
  using Index = Index_;
  const T* data;
  Index row_stride, channel_stride, y_stride, x_stride;
  Taps<Index> taps;
  bool along_sum;

  /// `rows`: the axis of weight that has the rows, 0 or 1.
  Weights(const Tensor& weight, int rows, const Taps<Index>& order)
      : data(static_cast<const T*>(weight.raw())),
        row_stride(static_cast<Index>(weight.strides()[rows])),
        channel_stride(static_cast<Index>(weight.strides()[1 - rows])),
        y_stride(static_cast<Index>(weight.strides()[2])),
        x_stride(static_cast<Index>(weight.strides()[3])),
        taps(order),
        along_sum(row_stride != 1) {}
  __device__ Index row(Index i) const { return i * row_stride; }
  __device__ Index column(Index p) const {
    const auto t = taps(p);
    return t.c * channel_stride + t.ky * y_stride + t.kx * x_stride;
  }
  __device__ Compute<T> at(const T* from, Index row, Index column) const {
    return widen(from[row + column]);
  }
};

/// Activations as an operand: a row for each channel, the sum over the pixels.
template <class T, class Index_>
struct ChannelRows {
  using Index = Index_;
  const T* data;
  Activations<const T, Index> from;
  Pixels<Index> pixels;
  bool along_sum;

  __device__ Index row(Index i) const { return i * from.c; }
  __device__ Index column(Index p) const {
    const auto at = pixels(p);
    return at.n * from.n + at.y * from.y + at.x * from.x;
  }
  __device__ Compute<T> at(const T* base, Index row, Index column) const {
    return widen(base[row + column]);
  }
};

/// Activations as the result: a row for each channel, a column for each pixel.
template <class T, class Index>
struct ToActivations {
  T* data;
  Activations<T, Index> to;
  Pixels<Index> pixels;
  const T* bias;                  // of each channel of all groups, or null
  int64_t bias_stride, channels;  // channels: of a group
  bool relu;

  __device__ Index column(Index p) const {
    const auto at = pixels(p);
    return at.n * to.n + at.y * to.y + at.x * to.x;
  }
  __device__ void store(T* y, int64_t group, Index i, Index column, Compute<T> sum) const {
    if (bias) sum += widen(bias[(group * channels + i) * bias_stride]);
    if (relu) sum = sum < Compute<T>(0) ? Compute<T>(0) : sum;
    y[i * to.c + column] = narrow<T>(sum);
  }
};

/// Weights as the result: a row for each output channel, a column for each tap.
template <class T, class Index>
struct ToWeights {
  T* data;
  Activations<T, Index> to;
  Taps<Index> taps;

  __device__ Index column(Index p) const {
    const auto t = taps(p);
    return t.c * to.c + t.ky * to.y + t.kx * to.x;
  }
  __device__ void store(T* y, int64_t, Index i, Index column, Compute<T> sum) const {
    y[i * to.n + column] = narrow<T>(sum);
  }
};

/// Calls f with an Index wide enough for all positions of the activations and weights, and for
/// those of the padding.
template <class F>
void with_index(const backend::ConvGeometry& g, const Tensor& x, const Tensor& y, const F& f) {
  const auto reach = [](int64_t size, int64_t step, int64_t margin, int64_t taps, int64_t spread) {
    return size * step + 2 * margin + taps * spread;
  };
  const int64_t h = reach(std::max(g.h, g.oh), g.stride.h, g.padding.h, g.kh, g.dilation.h);
  const int64_t w = reach(std::max(g.w, g.ow), g.stride.w, g.padding.w, g.kw, g.dilation.w);
  const auto fits = [&](const Tensor& t, int64_t channels, int64_t rows, int64_t columns) {
    const Strides& s = t.strides();
    return fits_32_bits({g.n, channels, rows, columns}, {s[0], s[1], s[2], s[3]});
  };
  if (fits(x, g.c_per_group(), h, w) && fits(y, g.o_per_group(), g.oh, g.ow) &&
      g.weight_shape().numel() <= kMaxIn32Bits)
    f(int32_t{});
  else
    f(int64_t{});
}

}  // namespace brim::cuda
