// Convolutions: that the file's weights are as many as the kernels read, and whom they go to.
#include "rt/kernels/convolution.h"

#include "rt/ops/windows.h"
#include "rt/step.h"

namespace brim::rt {
namespace {

constexpr int64_t kMaxGathered = int64_t{1} << 44;

Convolution convolution_of(const Step& s) {
  const Operand &x = s.in(0), &y = s.out(0);
  return {.a = s.attributes<ConvolutionAttributes>(),
          .n = x.dims[0],
          .h = x.dims[1],
          .w = x.dims[2],
          .c = x.dims[3],
          .oh = y.dims[1],
          .ow = y.dims[2],
          .o = y.dims[3],
          .x = x.as<float>(),
          .weights = s.in(1).as<float>(),
          .bias = s.in_or_null<float>(2),
          .residual = s.in_or_null<float>(3),
          .y = y.as<float>()};
}

/// x, weights, bias, maybe a residual, and y; sizes of windows.
bool has_operands(const Step& s, bool is_u8 = false) {
  const bool has_attributes = is_u8 ? s.has_attributes<QuantizedConvolutionAttributes>()
                                    : s.has_attributes<ConvolutionAttributes>();
  if (!has_attributes || s.inputs < 3 || s.inputs > 4 || s.outputs != 1) return false;
  const Operand &x = s.in(0), &y = s.out(0);
  for (int i = 1; i < 3; ++i)
    if (s.in(i).dtype != DType::f32) return false;
  if (!x.is_f32(4) || y.dtype != (is_u8 ? DType::u8 : DType::f32) || y.rank != 4 ||
      x.dims[0] != y.dims[0])
    return false;
  if (s.inputs == 4 && (!s.in(3).is_f32(4) || !s.in(3).has_sizes_of(y))) return false;
  const auto a = s.attributes<ConvolutionAttributes>();
  if (!are_windows(
          {a.kernel_h, a.kernel_w, a.stride_h, a.stride_w, a.dilation_h, a.dilation_w, a.groups},
          {a.top, a.left}))
    return false;
  // What is computed of rows and columns before it is seen that they lie outside of x.
  int64_t reach;
  for (const int64_t size : {y.dims[1] * a.stride_h + a.kernel_h * a.dilation_h,
                             y.dims[2] * a.stride_w + a.kernel_w * a.dilation_w})
    if (__builtin_mul_overflow(size, x.dims[2] * x.dims[3], &reach)) return false;
  return x.dims[3] > 0 && x.dims[3] % a.groups == 0 && y.dims[3] % a.groups == 0;
}

int check_convolution(const Step& s, const Failure& fail) {
  if (!has_operands(s)) return does_not_fit(s, fail);
  const Convolution k = convolution_of(s);
  const int64_t panels = panels_of(k.outputs());
  int64_t gathered;
  if (!is_product_of(s.in(1).count(),
                     {k.a.groups, panels, k.a.kernel_h, k.a.kernel_w, k.inputs(), kPanel}) ||
      !is_product_of(s.in(2).count(), {k.a.groups, panels, kPanel}) ||
      __builtin_mul_overflow(k.pixels(), k.depth(), &gathered) || gathered > kMaxGathered)
    return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

int check_winograd(const Step& s, const Failure& fail) {
  if (!has_operands(s)) return does_not_fit(s, fail);
  const Convolution k = convolution_of(s);
  const bool is_3x3 = k.a.kernel_h == 3 && k.a.kernel_w == 3 && k.a.stride_h == 1 &&
                      k.a.stride_w == 1 && k.a.dilation_h == 1 && k.a.dilation_w == 1 &&
                      k.a.groups == 1;
  if (!is_3x3 || k.c % kPanel != 0 || k.o % kPanel != 0 ||
      !is_product_of(s.in(1).count(), {36, k.o, k.c}) || s.in(2).count() != k.o || k.c > kMaxWindow)
    return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

/// In u8, if y is.
Convolution depthwise_of(const Step& s) {
  Convolution k = convolution_of(s);
  if (s.out(0).dtype != DType::u8) return k;
  const auto next = s.attributes<QuantizedConvolutionAttributes>().next;
  k.q = s.out(0).as<uint8_t>();
  k.inverse = static_cast<float>(next.inverse);
  k.next_zero_point = static_cast<int32_t>(next.zero_point);
  return k;
}

int check_depthwise(const Step& s, const Failure& fail) {
  const bool is_u8 = s.outputs > 0 && s.out(0).dtype == DType::u8;
  if (!has_operands(s, is_u8)) return does_not_fit(s, fail);
  const int64_t zero_point =
      is_u8 ? s.attributes<QuantizedConvolutionAttributes>().next.zero_point : 0;
  if (zero_point < 0 || zero_point > 255) return does_not_fit(s, fail);
  const Convolution k = convolution_of(s);
  if (k.c != k.o || k.a.groups != k.c || s.in(2).count() != k.c ||
      !is_product_of(s.in(1).count(), {k.a.kernel_h, k.a.kernel_w, k.c}))
    return does_not_fit(s, fail);
  return BRIM_RT_OK;
}

size_t scratch_of_convolution(const Step& s, Isa, int threads) {
  return convolution_scratch(convolution_of(s), threads);
}
size_t scratch_of_winograd(const Step& s, Isa, int threads) {
  return winograd_scratch(convolution_of(s), threads);
}

int run_convolution(const Step& s, const Run& run, const Failure&) {
  convolve(run.isa, convolution_of(s), run.threads, static_cast<float*>(run.scratch));
  return BRIM_RT_OK;
}
int run_winograd(const Step& s, const Run& run, const Failure&) {
  convolve_winograd(run.isa, convolution_of(s), run.threads, static_cast<float*>(run.scratch));
  return BRIM_RT_OK;
}
int run_depthwise(const Step& s, const Run& run, const Failure&) {
  convolve_depthwise(run.isa, depthwise_of(s), run.threads);
  return BRIM_RT_OK;
}

}  // namespace

const Op kConvolutionOp = {OpCode::convolution, "convolution", &check_convolution,
                           &scratch_of_convolution, &run_convolution};
const Op kWinogradOp = {OpCode::winograd, "winograd", &check_winograd, &scratch_of_winograd,
                        &run_winograd};
const Op kDepthwiseOp = {OpCode::depthwise, "depthwise", &check_depthwise, nullptr, &run_depthwise};

}  // namespace brim::rt
