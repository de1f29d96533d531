// conv2d and its two gradients: by cuDNN where it is there and can, else as matrix products whose
// operands are read where they lie: no image is unfolded in memory. Rows and columns of the
// products are channels, pixels (n, y, x) and taps (c, ky, kx). Activations may be of any strides;
// where they are nhwc, taps have their channels innermost, so that neighbours in a sum are
// neighbours in memory.
#include "backend/cuda/conv_dnn.cuh"
#include "backend/cuda/gemm.cuh"
#include "backend/geometry.h"
#include "backend/kernel.h"

namespace brim::cuda {
namespace {

using backend::ConvGeometry;

/// Activations (n, c, y, x) by their strides, in elements.
template <class T>
struct Activations {
  T* data;
  int64_t n, c, y, x;
  bool channels_last;

  explicit Activations(const Tensor& t)
      : data(static_cast<T*>(t.raw())),
        n(t.strides()[0]),
        c(t.strides()[1]),
        y(t.strides()[2]),
        x(t.strides()[3]),
        channels_last(t.strides()[1] < t.strides()[3]) {}
};

/// Position p of the pixels (n, height, width).
struct Pixel {
  int64_t n, y, x;
  __device__ Pixel(int64_t p, int64_t height, int64_t width)
      : n(p / width / height), y(p / width % height), x(p % width) {}
};

/// Position p of the taps (channels, kh, kw), or (kh, kw, channels).
struct Tap {
  int64_t c, ky, kx;
};
struct Taps {
  int64_t channels, kh, kw;
  bool channels_last;

  __device__ Tap operator()(int64_t p) const {
    if (channels_last) return {p % channels, p / channels / kw, p / channels % kw};
    return {p / kw / kh, p / kw % kh, p % kw};
  }
  int64_t count() const { return channels * kh * kw; }
};

/// What a tap of a pixel sees. Of the input, for pixels of the output: y * stride - padding +
/// ky * dilation; kTransposed: of the output, for pixels of the input, the inverse of that.
template <class T, bool kTransposed>
struct Patches {
  Activations<const T> from;
  int64_t height, width;  // of `from`
  int64_t rows, columns;  // of the pixels
  Pair stride, padding, dilation;
  Taps taps;

  struct Place {
    int64_t offset, y, x;
  };
  __device__ Place pixel(int64_t offset, int64_t i) const {
    const Pixel p(i, rows, columns);
    offset += p.n * from.n;
    if constexpr (kTransposed) return {offset, p.y + padding.h, p.x + padding.w};
    return {offset, p.y * stride.h - padding.h, p.x * stride.w - padding.w};
  }
  __device__ Place tap(int64_t p) const {
    const Tap t = taps(p);
    return {t.c * from.c, t.ky * dilation.h, t.kx * dilation.w};
  }
  __device__ Compute<T> value(const Place& pixel, const Place& tap) const {
    int64_t y, x;
    if constexpr (kTransposed) {
      y = pixel.y - tap.y, x = pixel.x - tap.x;
      if (y < 0 || x < 0 || y % stride.h != 0 || x % stride.w != 0) return 0;
      y /= stride.h, x /= stride.w;
    } else {
      y = pixel.y + tap.y, x = pixel.x + tap.x;
      if (y < 0 || x < 0) return 0;
    }
    if (y >= height || x >= width) return 0;
    return widen(from.data[pixel.offset + tap.offset + y * from.y + x * from.x]);
  }
};

/// Patches as an operand: a row for each pixel, the sum over the taps.
template <class T, bool kTransposed>
struct PixelRows {
  using Place = typename Patches<T, kTransposed>::Place;
  Patches<T, kTransposed> patches;
  bool along_sum;

  explicit PixelRows(const Patches<T, kTransposed>& p)
      : patches(p), along_sum(p.taps.channels_last) {}
  __device__ Place row(int64_t offset, int64_t i) const { return patches.pixel(offset, i); }
  __device__ Place column(int64_t p) const { return patches.tap(p); }
  __device__ Compute<T> at(const Place& row, const Place& column) const {
    return patches.value(row, column);
  }
};

/// Patches as an operand: a row for each tap, the sum over the pixels.
template <class T>
struct TapRows {
  using Place = typename Patches<T, false>::Place;
  Patches<T, false> patches;
  bool along_sum;

  explicit TapRows(const Patches<T, false>& p) : patches(p), along_sum(!p.taps.channels_last) {}
  __device__ Place row(int64_t offset, int64_t i) const {
    Place place = patches.tap(i);
    place.offset += offset;
    return place;
  }
  __device__ Place column(int64_t p) const { return patches.pixel(0, p); }
  __device__ Compute<T> at(const Place& row, const Place& column) const {
    return patches.value(column, row);
  }
};

/// Weights (o, c, kh, kw), contiguous, as an operand: a row for each channel of one side, the sum
/// over the taps of the other's.
template <class T>
struct Weights {
  const T* data;
  int64_t row_stride, channel_stride;
  Taps taps;
  bool along_sum;

  __device__ const T* row(int64_t offset, int64_t i) const {
    return data + offset + i * row_stride;
  }
  __device__ int64_t column(int64_t p) const {
    const Tap t = taps(p);
    return t.c * channel_stride + t.ky * taps.kw + t.kx;
  }
  __device__ Compute<T> at(const T* row, int64_t column) const { return widen(row[column]); }
};

/// Activations as an operand: a row for each channel, the sum over the pixels.
template <class T>
struct ChannelRows {
  Activations<const T> from;
  int64_t height, width;
  bool along_sum;

  __device__ const T* row(int64_t offset, int64_t i) const {
    return from.data + offset + i * from.c;
  }
  __device__ int64_t column(int64_t p) const {
    const Pixel at(p, height, width);
    return at.n * from.n + at.y * from.y + at.x * from.x;
  }
  __device__ Compute<T> at(const T* row, int64_t column) const { return widen(row[column]); }
};

/// Activations as the result: a row for each channel, a column for each pixel.
template <class T>
struct ToActivations {
  Activations<T> to;
  int64_t height, width;
  const T* bias;                  // of each channel of all groups, or null
  int64_t bias_stride, channels;  // channels: of a group

  __device__ int64_t column(int64_t p) const {
    const Pixel at(p, height, width);
    return at.n * to.n + at.y * to.y + at.x * to.x;
  }
  __device__ void store(int64_t group, int64_t offset, int64_t i, int64_t column,
                        Compute<T> sum) const {
    if (bias) sum += widen(bias[(group * channels + i) * bias_stride]);
    to.data[offset + i * to.c + column] = narrow<T>(sum);
  }
};

/// Weights as the result: a row for each output channel, a column for each tap.
template <class T>
struct ToWeights {
  T* data;
  Taps taps;
  int64_t row_stride;

  __device__ int64_t column(int64_t p) const {
    const Tap t = taps(p);
    return (t.c * taps.kh + t.ky) * taps.kw + t.kx;
  }
  __device__ void store(int64_t, int64_t offset, int64_t i, int64_t column, Compute<T> sum) const {
    data[offset + i * row_stride + column] = narrow<T>(sum);
  }
};

/// The groups: how far y, a and b are from those of the group before.
DeviceLoop<3> groups(const ConvGeometry& g, int64_t y, int64_t a, int64_t b) {
  backend::Loop<3> loop;
  loop.rank = 1;
  loop.numel = loop.size[0] = g.groups;
  loop.stride[0][0] = y, loop.stride[1][0] = a, loop.stride[2][0] = b;
  return DeviceLoop<3>(loop);
}

template <class T>
Patches<T, false> patches_of_input(const Activations<const T>& x, const ConvGeometry& g) {
  return {x,         g.h,        g.w,
          g.oh,      g.ow,       g.stride,
          g.padding, g.dilation, {g.c_per_group(), g.kh, g.kw, x.channels_last}};
}

/// y = x * weight + bias: (o x taps) (taps x pixels of y), for each group.
template <class T>
void own_conv2d(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
                Tensor& y, const ConvGeometry& g) {
  const Activations<const T> from(x);
  const Activations<T> to(y);
  const Patches<T, false> patches = patches_of_input(from, g);
  const int64_t taps = patches.taps.count();
  const Weights<T> weights{static_cast<const T*>(weight.raw()), taps, g.kh * g.kw, patches.taps,
                           true};
  const ToActivations<T> out{to,
                             g.oh,
                             g.ow,
                             bias.defined() ? static_cast<const T*>(bias.raw()) : nullptr,
                             bias.defined() ? bias.strides()[0] : 0,
                             g.o_per_group()};
  gemm<Compute<T>>(
      context, weights, PixelRows<T, false>(patches), out, g.o_per_group(), g.n * g.oh * g.ow, taps,
      groups(g, g.o_per_group() * to.c, g.o_per_group() * taps, g.c_per_group() * from.c));
}

template <class T>
void conv2d(const Context& context, const Tensor& x, const Tensor& weight, const Tensor& bias,
            Tensor& y, const ConvGeometry& g) {
  const auto own = [&](const Context& at) { own_conv2d<T>(at, x, weight, bias, y, g); };
  if (!by_dnn<T>(context, ConvPass::forward, x, weight, bias, y, g, own)) own(context);
}

/// dx: (c x taps of o) (taps x pixels of x), for each group.
template <class T>
void own_conv2d_grad_x(const Context& context, const Tensor& dy, const Tensor& weight, Tensor& dx,
                       const ConvGeometry& g) {
  const Activations<const T> from(dy);
  const Activations<T> to(dx);
  const Taps taps{g.o_per_group(), g.kh, g.kw, from.channels_last};
  const Patches<T, true> patches{from, g.oh, g.ow, g.h, g.w, g.stride, g.padding, g.dilation, taps};
  const int64_t of_output = g.c_per_group() * g.kh * g.kw;  // weights of one output channel
  const Weights<T> weights{static_cast<const T*>(weight.raw()), g.kh * g.kw, of_output, taps,
                           g.kh * g.kw > 1};
  const ToActivations<T> out{to, g.h, g.w, nullptr, 0, g.c_per_group()};
  gemm<Compute<T>>(
      context, weights, PixelRows<T, true>(patches), out, g.c_per_group(), g.n * g.h * g.w,
      taps.count(),
      groups(g, g.c_per_group() * to.c, g.o_per_group() * of_output, g.o_per_group() * from.c));
}

template <class T>
void conv2d_grad_x(const Context& context, const Tensor& dy, const Tensor& weight, Tensor& dx,
                   const ConvGeometry& g) {
  const auto own = [&](const Context& at) { own_conv2d_grad_x<T>(at, dy, weight, dx, g); };
  if (!by_dnn<T>(context, ConvPass::grad_x, dx, weight, {}, dy, g, own)) own(context);
}

/// dw: (o x pixels of y) (pixels x taps), for each group.
template <class T>
void own_conv2d_grad_weight(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dw,
                            const ConvGeometry& g) {
  const Activations<const T> from(x), top(dy);
  const Patches<T, false> patches = patches_of_input(from, g);
  const int64_t taps = patches.taps.count();
  const ChannelRows<T> rows{top, g.oh, g.ow, !top.channels_last};
  const ToWeights<T> out{static_cast<T*>(dw.raw()), patches.taps, taps};
  gemm<Compute<T>>(
      context, rows, TapRows<T>(patches), out, g.o_per_group(), taps, g.n * g.oh * g.ow,
      groups(g, g.o_per_group() * taps, g.o_per_group() * top.c, g.c_per_group() * from.c));
}

template <class T>
void conv2d_grad_weight(const Context& context, const Tensor& x, const Tensor& dy, Tensor& dw,
                        const ConvGeometry& g) {
  const auto own = [&](const Context& at) { own_conv2d_grad_weight<T>(at, x, dy, dw, g); };
  if (!by_dnn<T>(context, ConvPass::grad_weight, x, dw, {}, dy, g, own)) own(context);
}

template <class... T>
bool register_all() {
  constexpr DeviceKind cuda = DeviceKind::cuda;
  (backend::register_kernel("conv2d", cuda, dtype_of<T>, &conv2d<T>), ...);
  (backend::register_kernel("conv2d_grad_x", cuda, dtype_of<T>, &conv2d_grad_x<T>), ...);
  (backend::register_kernel("conv2d_grad_weight", cuda, dtype_of<T>, &conv2d_grad_weight<T>), ...);
  return true;
}

const bool registered = register_all<float, double, Half, BFloat16>();

}  // namespace
}  // namespace brim::cuda
