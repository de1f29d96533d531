// A pixel of the result is a sum over taps: a pixel of what is read times the weights of all
// channels. Forward and gradient of x differ in which pixels these are, and look that up.
#include "backend/cpu/conv/conv_depthwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/conv/conv_depthwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using backend::ConvGeometry;

/// What a position of the result reads along an axis: `source` with weight `k`.
struct AxisTap {
  int64_t k, source;
};

/// The taps of all positions along an axis, those of one after the other.
class AxisTaps {
 public:
  /// Forward: of the `out` outputs of a convolution that reads `in` elements. Else of the `in`
  /// elements, which the outputs hand their gradients to.
  AxisTaps(const Context& context, bool forward, int64_t in, int64_t out, int64_t kernel,
           int64_t stride, int64_t padding, int64_t dilation)
      : positions_(forward ? out : in),
        taps_(context.workspace(static_cast<size_t>(positions_ * kernel) * sizeof(AxisTap))),
        begin_(context.workspace(static_cast<size_t>(positions_ + 1) * sizeof(int64_t))) {
    const int64_t sources = forward ? in : out;
    AxisTap* const taps = taps_.as<AxisTap>();
    int64_t* const begin = begin_.as<int64_t>();
    int64_t count = begin[0] = 0;
    for (int64_t i = 0; i < positions_; ++i) {
      for (int64_t k = 0; k < kernel; ++k) {
        const int64_t at =
            forward ? i * stride - padding + k * dilation : i + padding - k * dilation;
        if (at < 0 || (!forward && at % stride != 0)) continue;
        const int64_t source = forward ? at : at / stride;
        if (source < sources) taps[count++] = {k, source};
      }
      begin[i + 1] = count;
    }
  }
  /// How far apart the sources of `count` positions from i on are, where these have the same taps
  /// in all else; 0 where not.
  int64_t step(int64_t i, int64_t count) const {
    if (i + count > positions_ || begin(i) == end(i)) return 0;
    const int64_t taps = end(i) - begin(i), apart = begin(i + 1)->source - begin(i)->source;
    for (int64_t p = 1; p < count; ++p) {
      if (end(i + p) - begin(i + p) != taps) return 0;
      for (int64_t t = 0; t < taps; ++t) {
        const AxisTap &a = begin(i)[t], &b = begin(i + p)[t];
        if (a.k != b.k || b.source - a.source != p * apart) return 0;
      }
    }
    return apart;
  }
  const AxisTap* begin(int64_t i) const { return taps_.as<AxisTap>() + begin_.as<int64_t>()[i]; }
  const AxisTap* end(int64_t i) const { return begin(i + 1); }

 private:
  int64_t positions_;
  Workspace taps_, begin_;
};

/// Calls block(tag, constant of vectors, channel) for blocks that cover the channels: of `kMost`
/// vectors, of one, and of one number.
template <int kMost, class T, class Block>
HWY_INLINE void each_block(int64_t channels, const Block& block) {
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 1> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t c = 0;
  for (; c + kMost * lanes <= channels; c += kMost * lanes)
    block(wide, std::integral_constant<int, kMost>(), c);
  for (; c + lanes <= channels; c += lanes) block(wide, std::integral_constant<int, 1>(), c);
  for (; c < channels; ++c) block(narrow, std::integral_constant<int, 1>(), c);
}

/// An image of pixels of `channels` numbers.
template <class T>
struct Pixels {
  const T* first;
  int64_t width, channels;
  const T* at(int64_t row, int64_t column) const {
    return first + (row * width + column) * channels;
  }
};

/// A row of the result, and what it is made of. weights: (kernel, channels).
template <class T>
struct RowSum {
  Pixels<T> from;
  const AxisTaps &rows, &columns;
  int64_t row, kw;
  const T *weights, *bias;  // bias may be null
  T* to;

  /// `kVectors` from channel c on of `kPixels` pixels, whose sources are `step` apart.
  template <int kPixels, int kVectors, class D>
  HWY_INLINE void sum(D d, int64_t column, int64_t step, int64_t c) const {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), channels = from.channels;
    hn::Vec<D> sums[kPixels][kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const auto first = bias ? hn::LoadU(d, bias + c + v * lanes) : hn::Zero(d);
      for (int p = 0; p < kPixels; ++p) sums[p][v] = first;
    }
    const int64_t hop = step * channels;
    for (const AxisTap* y = rows.begin(row); y != rows.end(row); ++y) {
      const T* const line = from.at(y->source, 0) + c;
      const T* const line_weights = weights + y->k * kw * channels + c;
      for (const AxisTap* x = columns.begin(column); x != columns.end(column); ++x) {
        const T* pixels[kPixels] = {line + x->source * channels};
        for (int p = 1; p < kPixels; ++p) pixels[p] = pixels[p - 1] + hop;
        const T* const w = line_weights + x->k * channels;
        for (int v = 0; v < kVectors; ++v) {
          const auto weight = hn::LoadU(d, w + v * lanes);
          for (int p = 0; p < kPixels; ++p)
            sums[p][v] = hn::MulAdd(hn::LoadU(d, pixels[p] + v * lanes), weight, sums[p][v]);
        }
      }
    }
    for (int p = 0; p < kPixels; ++p)
      for (int v = 0; v < kVectors; ++v)
        hn::StoreU(sums[p][v], d, to + (column + p) * channels + c + v * lanes);
  }
  /// All channels of `kPixels` pixels.
  template <int kPixels>
  HWY_INLINE void sum_pixels(int64_t column, int64_t step) const {
    each_block<kPixels == 1 ? 4 : 2, T>(from.channels, [&](auto d, auto vectors, int64_t c) {
      sum<kPixels, decltype(vectors)::value>(d, column, step, c);
    });
  }
};

/// Forward, or the gradient of x.
template <class T>
void convolve(const Context& context, bool forward, const ConvGeometry& g, const T* from,
              const T* weight, const ConvEpilogue<T>& epilogue, T* to) {
  const int64_t channels = g.c, h = forward ? g.h : g.oh, w = forward ? g.w : g.ow;
  const int64_t out_h = forward ? g.oh : g.h, out_w = forward ? g.ow : g.w;
  const Workspace turned =
      context.workspace(static_cast<size_t>(g.kh * g.kw * channels) * sizeof(T));
  T* const weights = turned.as<T>();
  transpose(weight, 1, channels, g.kh * g.kw, weights);
  const AxisTaps rows(context, forward, g.h, g.oh, g.kh, g.stride.h, g.padding.h, g.dilation.h);
  const AxisTaps columns(context, forward, g.w, g.ow, g.kw, g.stride.w, g.padding.w, g.dilation.w);
  constexpr int64_t kPixels = 4;  // that share the weights in registers
  const Workspace room = context.workspace(static_cast<size_t>(out_w) * sizeof(int64_t));
  int64_t* const steps = room.as<int64_t>();
  for (int64_t column = 0; column < out_w; ++column) steps[column] = columns.step(column, kPixels);
  const int64_t work = std::max<int64_t>(1, out_w * channels * g.kh * g.kw);
  parallel_for(g.n * out_h, kElementwiseGrain * 4 / work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      T* const out = to + line * out_w * channels;
      const Pixels<T> image{from + line / out_h * h * w * channels, w, channels};
      const RowSum<T> sum{image, rows, columns, line % out_h, g.kw, weights, epilogue.bias, out};
      for (int64_t column = 0; column < out_w;) {
        if (const int64_t step = steps[column]; step > 0) {
          sum.template sum_pixels<kPixels>(column, step);
          column += kPixels;
        } else {
          sum.template sum_pixels<1>(column++, 0);
        }
      }
      epilogue.finish(out, out_w * channels);
    }
  });
}

/// Adds what a row of dy makes of the gradient of one tap.
template <int kVectors, class D, class T>
HWY_INLINE void add_row_gradient(D d, const T* x, int64_t x_step, const T* dy, int64_t dy_step,
                                 int64_t count, T* dw) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t i = 0; i < count; ++i)
    for (int v = 0; v < kVectors; ++v)
      sum[v] = hn::MulAdd(hn::LoadU(d, x + i * x_step + v * lanes),
                          hn::LoadU(d, dy + i * dy_step + v * lanes), sum[v]);
  for (int v = 0; v < kVectors; ++v) {
    T* const to = dw + v * lanes;
    hn::StoreU(hn::Add(hn::LoadU(d, to), sum[v]), d, to);
  }
}

/// The first output along an axis whose tap `offset` behind its place is inside the image.
int64_t first_inside(int64_t offset, int64_t stride) {
  return offset >= 0 ? 0 : (-offset + stride - 1) / stride;
}

/// One row of outputs; sums: (kernel, channels).
template <class T>
void add_weight_gradient(const ConvGeometry& g, const T* image, const T* dy, int64_t oy, T* sums) {
  for (int64_t ky = 0; ky < g.kh; ++ky) {
    const int64_t iy = oy * g.stride.h - g.padding.h + ky * g.dilation.h;
    if (iy < 0 || iy >= g.h) continue;
    for (int64_t kx = 0; kx < g.kw; ++kx) {
      const int64_t offset = kx * g.dilation.w - g.padding.w;
      const int64_t first = first_inside(offset, g.stride.w);
      const int64_t beyond = g.w - offset;  // of the outputs' places
      const int64_t last = beyond <= 0 ? 0 : std::min(g.ow, (beyond + g.stride.w - 1) / g.stride.w);
      if (first >= last) continue;
      const T* const x = image + (iy * g.w + first * g.stride.w + offset) * g.c;
      each_block<4, T>(g.c, [&](auto d, auto vectors, int64_t c) {
        add_row_gradient<decltype(vectors)::value>(d, x + c, g.stride.w * g.c, dy + first * g.c + c,
                                                   g.c, last - first,
                                                   sums + (ky * g.kw + kx) * g.c + c);
      });
    }
  }
}

template <class T>
void gradient_of_weight(const Context& context, const ConvGeometry& g, const T* x, const T* dy,
                        T* dw) {
  const int64_t taps = g.kh * g.kw, size = taps * g.c, rows = g.n * g.oh;
  // Parts of rows, their number fixed by the shape, each with a sum of its own.
  const int64_t parts = std::clamp<int64_t>(rows * g.ow * size / (16 * kElementwiseGrain), 1,
                                            std::min<int64_t>(rows, 16));
  const Workspace space = context.workspace(static_cast<size_t>(parts * size) * sizeof(T));
  T* const sums = space.as<T>();
  parallel_for(parts, 1, [&](int64_t part, int64_t end) {
    for (; part < end; ++part) {
      T* const own = sums + part * size;
      std::fill_n(own, size, T(0));
      for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row)
        add_weight_gradient(g, x + row / g.oh * g.h * g.w * g.c, dy + row * g.ow * g.c, row % g.oh,
                            own);
    }
  });
  for (int64_t part = 1; part < parts; ++part)
    for (int64_t i = 0; i < size; ++i) sums[i] += sums[part * size + i];
  transpose(static_cast<const T*>(sums), 1, taps, g.c, dw);
}

template <class T>
void run(const Context& context, ConvPass pass, const ConvGeometry& g, const T* a, const T* b,
         const ConvEpilogue<T>& epilogue, T* out) {
  if (pass == ConvPass::grad_weight) return gradient_of_weight(context, g, a, b, out);
  convolve(context, pass == ConvPass::forward, g, a, b, epilogue, out);
}

void depthwise_f32(const Context& context, ConvPass pass, const ConvGeometry& g, const float* a,
                   const float* b, const ConvEpilogue<float>& epilogue, float* out) {
  run(context, pass, g, a, b, epilogue, out);
}
void depthwise_f64(const Context& context, ConvPass pass, const ConvGeometry& g, const double* a,
                   const double* b, const ConvEpilogue<double>& epilogue, double* out) {
  run(context, pass, g, a, b, epilogue, out);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(depthwise_f32);
HWY_EXPORT(depthwise_f64);

void conv_depthwise(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
                    const float* a, const float* b, const ConvEpilogue<float>& epilogue,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(depthwise_f32)(context, pass, g, a, b, epilogue, out);
}
void conv_depthwise(const Context& context, ConvPass pass, const backend::ConvGeometry& g,
                    const double* a, const double* b, const ConvEpilogue<double>& epilogue,
                    double* out) {
  HWY_DYNAMIC_DISPATCH(depthwise_f64)(context, pass, g, a, b, epilogue, out);
}

}  // namespace brim::cpu
#endif
