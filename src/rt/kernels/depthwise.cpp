// Each channel has a kernel of its own; vectors hold neighbouring channels.
#include "rt/kernels/convolution.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rt/kernels/depthwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "rt/kernels/quantize-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::rt::HWY_NAMESPACE {
namespace {

/// Where results go, as f32.
struct F32Output {
  using Number = float;
  explicit F32Output(const Convolution&) {}
  static float* of(const Convolution& k) { return k.y; }
  HWY_INLINE void store(VecF v, float* to) const { hn::StoreU(v, TagF(), to); }
  HWY_INLINE void store_part(VecF v, int64_t count, float* to) const {
    HWY_NAMESPACE::store_part(v, count, to);
  }
};
/// As u8.
struct U8Output : Quantizer {
  using Number = uint8_t;
  explicit U8Output(const Convolution& k) : Quantizer(k.inverse, k.next_zero_point) {}
  static uint8_t* of(const Convolution& k) { return k.q; }
};

/// One vector of channels of one pixel; with kPart only the first `count`.
template <bool kPart, class Output>
HWY_INLINE void pixel(const Convolution& k, const Output& output, const float* line,
                      const Taps& rows, const Taps& columns, int64_t c, int64_t count,
                      const float* residual, typename Output::Number* y) {
  const TagF d;
  const ConvolutionAttributes& a = k.a;
  const auto load = [&](const float* from)
                        HWY_ATTR { return kPart ? load_part(from, count) : hn::LoadU(d, from); };
  VecF sum = k.bias ? load(k.bias + c) : hn::Zero(d);
  for (int64_t ky = rows.first; ky < rows.last; ++ky)
    for (int64_t kx = columns.first; kx < columns.last; ++kx)
      sum = hn::MulAdd(load(line + (ky * a.dilation_h * k.w + kx * a.dilation_w) * k.c + c),
                       load(k.weights + (ky * a.kernel_w + kx) * k.c + c), sum);
  if (residual) sum = hn::Add(sum, load(residual + c));
  sum = clip(sum, static_cast<float>(a.low), static_cast<float>(a.high));
  kPart ? output.store_part(sum, count, y + c) : output.store(sum, y + c);
}

/// Columns [begin, end) of a row, whose windows of 3 x 3 lie in the image; `line` is the first
/// one's. Weights stay in registers.
template <int kStride, class Output>
HWY_INLINE void inner_3x3(const Convolution& k, const Output& output, const float* line,
                          int64_t begin, int64_t end, int64_t c, const float* residual,
                          typename Output::Number* y) {
  const TagF d;
  VecF w[9];
  for (int t = 0; t < 9; ++t) w[t] = hn::LoadU(d, k.weights + t * k.c + c);
  const VecF bias = k.bias ? hn::LoadU(d, k.bias + c) : hn::Zero(d);
  const float low = static_cast<float>(k.a.low), high = static_cast<float>(k.a.high);
  const int64_t row = k.w * k.c;
  const float* x = line + c;
  for (int64_t column = begin; column < end; ++column, x += kStride * k.c) {
    VecF a = bias, b = hn::Zero(d), e = hn::Zero(d);
    for (int t = 0; t < 3; ++t) {
      a = hn::MulAdd(hn::LoadU(d, x + t * k.c), w[t], a);
      b = hn::MulAdd(hn::LoadU(d, x + row + t * k.c), w[3 + t], b);
      e = hn::MulAdd(hn::LoadU(d, x + 2 * row + t * k.c), w[6 + t], e);
    }
    VecF sum = hn::Add(hn::Add(a, b), e);
    if (residual) sum = hn::Add(sum, hn::LoadU(d, residual + column * k.c + c));
    output.store(clip(sum, low, high), y + column * k.c + c);
  }
}

template <class Output>
void depthwise_row(const Convolution& k, int64_t image, int64_t row) {
  const ConvolutionAttributes& a = k.a;
  const int64_t top = row * a.stride_h - a.top;
  const Taps rows(top, k.h, a.kernel_h, a.dilation_h);
  const int64_t at = (image * k.oh + row) * k.ow * k.c;
  const Output output(k);
  auto* const y = Output::of(k) + at;
  const float* const residual = k.residual ? k.residual + at : nullptr;
  const float* const line = k.x + (image * k.h + top) * k.w * k.c;
  const bool is_plain = a.kernel_h == 3 && a.kernel_w == 3 && a.dilation_h == 1 &&
                        a.dilation_w == 1 && rows.first == 0 && rows.last == 3 &&
                        (a.stride_w == 1 || a.stride_w == 2);
  // Columns whose windows need no look at the borders.
  const InnerOutputs inner = k.inner_columns();
  const int64_t begin = is_plain ? inner.begin : k.ow, end = is_plain ? inner.end : k.ow;
  const auto border = [&](int64_t from, int64_t to, int64_t c, int64_t count) HWY_ATTR {
    for (int64_t column = from; column < to; ++column) {
      const int64_t left = column * a.stride_w - a.left;
      const Taps columns(left, k.w, a.kernel_w, a.dilation_w);
      const float* const more = residual ? residual + column * k.c : nullptr;
      if (count == kLanes)
        pixel<false>(k, output, line + left * k.c, rows, columns, c, count, more, y + column * k.c);
      else
        pixel<true>(k, output, line + left * k.c, rows, columns, c, count, more, y + column * k.c);
    }
  };
  for (int64_t c = 0; c < k.c; c += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, k.c - c);
    if (count < kLanes) {
      border(0, k.ow, c, count);
      continue;
    }
    border(0, begin, c, count);
    if (begin < end) {
      const float* const first = line + (begin * a.stride_w - a.left) * k.c;
      if (a.stride_w == 1)
        inner_3x3<1>(k, output, first, begin, end, c, residual, y);
      else
        inner_3x3<2>(k, output, first, begin, end, c, residual, y);
    }
    border(end, k.ow, c, count);
  }
}

void run_depthwise(const Convolution& k, const Threads& threads) {
  const double work = static_cast<double>(k.ow) * static_cast<double>(k.c) *
                      static_cast<double>(k.a.kernel_h) * static_cast<double>(k.a.kernel_w);
  parallel_parts(threads, k.n * k.oh, rows_worth_a_thread(1 << 15, work),
                 [&](int64_t, int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r)
                     if (k.q)
                       depthwise_row<U8Output>(k, r / k.oh, r % k.oh);
                     else
                       depthwise_row<F32Output>(k, r / k.oh, r % k.oh);
                 });
}

}  // namespace
}  // namespace brim::rt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::rt {

BRIM_RT_ISA_TABLE(run_depthwise);

void convolve_depthwise(Isa isa, const Convolution& conv, const Threads& threads) {
  if (conv.pixels() > 0 && conv.o > 0) run_depthwise_table.of(isa)(conv, threads);
}

}  // namespace brim::rt
#endif
