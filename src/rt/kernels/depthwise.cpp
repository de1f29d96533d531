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

/// Where results go, within bounds: as f32.
struct F32Output {
  using Number = float;
  const float low, high;
  explicit F32Output(const Convolution& k)
      : low(static_cast<float>(k.a.low)), high(static_cast<float>(k.a.high)) {}
  static float* of(const Convolution& k) { return k.y; }
  HWY_INLINE void store(VecF v, float* to) const { hn::StoreU(clip(v, low, high), TagF(), to); }
  HWY_INLINE void store_part(VecF v, int64_t count, float* to) const {
    HWY_NAMESPACE::store_part(clip(v, low, high), count, to);
  }
};
/// As u8.
struct U8Output : Quantizer {
  using Number = uint8_t;
  explicit U8Output(const Convolution& k)
      : Quantizer(k.inverse, k.next_zero_point, static_cast<float>(k.a.low),
                  static_cast<float>(k.a.high)) {}
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
  kPart ? output.store_part(sum, count, y + c) : output.store(sum, y + c);
}

/// A vector of channels of 3 x 3 kernels over a row of outputs.
struct Row3x3 {
  int64_t step, row;  ///< from one pixel to the next, and from one row of the image
  bool top, bottom;   ///< whether the image has the rows above and below
  VecF bias;
  VecF w[9];  // in registers: stores of bytes may alias what is in memory

  HWY_INLINE Row3x3(const Convolution& k, bool has_top, bool has_bottom, int64_t c)
      : step(k.c),
        row(k.w * k.c),
        top(has_top),
        bottom(has_bottom),
        bias(k.bias ? hn::LoadU(TagF(), k.bias + c) : hn::Zero(TagF())) {
    for (int t = 0; t < 9; ++t) w[t] = hn::LoadU(TagF(), k.weights + t * k.c + c);
  }

  /// Of N columns side by side; x is where the first one's window begins. Without kLeft or kRight
  /// the image ends there.
  template <int N, int kStride, bool kLeft = true, bool kRight = true>
  HWY_INLINE void sums(const float* x, VecF (&all)[N]) const {
    const TagF d;
    VecF above[N], below[N];
    for (int n = 0; n < N; ++n) {
      above[n] = bias;
      all[n] = below[n] = hn::Zero(d);
    }
    if (top) add<0, N, kStride, kLeft, kRight>(x, above);
    add<3, N, kStride, kLeft, kRight>(x + row, all);
    if (bottom) add<6, N, kStride, kLeft, kRight>(x + 2 * row, below);
    for (int n = 0; n < N; ++n) all[n] = hn::Add(hn::Add(above[n], all[n]), below[n]);
  }

 private:
  /// A row of taps from kTap on.
  template <int kTap, int N, int kStride, bool kLeft, bool kRight>
  HWY_INLINE void add(const float* x, VecF (&all)[N]) const {
    const TagF d;
    constexpr int kWidth = (N - 1) * kStride + 3;
#pragma GCC unroll 8
    for (int i = kLeft ? 0 : 1; i < (kRight ? kWidth : kWidth - 1); ++i) {
      const VecF v = hn::LoadU(d, x + i * step);
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n)
        if (const int t = i - n * kStride; t >= 0 && t < 3)
          all[n] = hn::MulAdd(v, w[kTap + t], all[n]);
    }
  }
};

/// All columns of a row of outputs, of which [begin, end) have windows that lie in the image from
/// left to right, and at most one on each side has not; `line` is where column 0's window begins.
template <int kStride, class Output>
HWY_INLINE void row_3x3(const Convolution& k, const Output& output, const float* line, bool top,
                        bool bottom, int64_t begin, int64_t end, int64_t c, const float* residual,
                        typename Output::Number* y) {
  const TagF d;
  constexpr int kColumns = kLanes == 16 ? 2 : 1;  // as registers allow
  const int64_t step = k.c;
  const Row3x3 kernel(k, top, bottom, c);
  const auto store = [&](VecF sum, int64_t column) HWY_ATTR {
    if (residual) sum = hn::Add(sum, hn::LoadU(d, residual + column * step + c));
    output.store(sum, y + column * step + c);
  };
  const auto x = [&](int64_t column) { return line + c + column * kStride * step; };
  VecF one[1], some[kColumns];
  if (begin > 0) {
    kernel.template sums<1, kStride, false, true>(x(0), one);
    store(one[0], 0);
  }
  int64_t column = begin;
  for (; column + kColumns <= end; column += kColumns) {
    kernel.template sums<kColumns, kStride>(x(column), some);
    for (int n = 0; n < kColumns; ++n) store(some[n], column + n);
  }
  if (column < end) {
    kernel.template sums<1, kStride>(x(column), one);
    store(one[0], column);
  }
  if (end < k.ow) {
    kernel.template sums<1, kStride, true, false>(x(end), one);
    store(one[0], end);
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
  const InnerOutputs inner = k.inner_columns();
  // Whether windows lie in the image but for a row or column on each side at most.
  const bool is_plain = a.kernel_h == 3 && a.kernel_w == 3 && a.dilation_h == 1 &&
                        a.dilation_w == 1 && rows.first <= 1 && rows.last >= 2 && a.left <= 1 &&
                        (a.stride_w == 1 || a.stride_w == 2) && k.w > 1 &&
                        inner.begin <= inner.end && inner.end + 1 >= k.ow &&
                        (k.ow - 1) * a.stride_w - a.left + 2 <= k.w;
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
  const bool has_top = rows.first == 0, has_bottom = rows.last == 3;
  for (int64_t c = 0; c < k.c; c += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, k.c - c);
    const float* const first = line - a.left * k.c;
    if (count < kLanes || !is_plain)
      border(0, k.ow, c, count);
    else if (a.stride_w == 1)
      row_3x3<1>(k, output, first, has_top, has_bottom, inner.begin, inner.end, c, residual, y);
    else
      row_3x3<2>(k, output, first, has_top, has_bottom, inner.begin, inner.end, c, residual, y);
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
