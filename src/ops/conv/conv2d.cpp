// conv2d and conv1d, which is conv2d of images with one row
#include <brim/ops/conv.h>

#include <algorithm>

#include "ops/autocast.h"
#include "ops/conv/convolve.h"

namespace brim {
namespace {

/// `stride`, or the padded size where it is longer: either way there is one output. Kernels lay
/// images out by their strides, which must not be large beyond reason.
int64_t bounded_stride(int64_t stride, int64_t size, int64_t padding) {
  return std::min(stride, std::max<int64_t>(size + 2 * padding, 1));
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([&](const auto&... t) { return conv2d(t..., options); }, x, weight, bias);
  ops::check_operands("conv2d", x, weight, bias, 4, "weight (O, C / groups, KH, KW)");
  ops::check_channels("conv2d", x, weight, bias, options.groups);
  const Shape &s = x.shape(), &k = weight.shape();
  const Pair st = options.stride, pad = options.padding, dil = options.dilation;
  return ops::convolve(
      x, weight, bias,
      {.n = s[0],
       .c = s[1],
       .h = s[2],
       .w = s[3],
       .o = k[0],
       .kh = k[2],
       .kw = k[3],
       .oh = ops::outputs_along("conv2d", "height", x, weight, 2, st.h, pad.h, dil.h),
       .ow = ops::outputs_along("conv2d", "width", x, weight, 3, st.w, pad.w, dil.w),
       .stride = {bounded_stride(st.h, s[2], pad.h), bounded_stride(st.w, s[3], pad.w)},
       .padding = pad,
       .dilation = dil,
       .groups = options.groups});
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([&](const auto&... t) { return conv1d(t..., options); }, x, weight, bias);
  ops::check_operands("conv1d", x, weight, bias, 3, "weight (O, C / groups, K)");
  ops::check_channels("conv1d", x, weight, bias, options.groups);
  const int64_t stride = options.stride, padding = options.padding, dilation = options.dilation;
  const int64_t length =
      ops::outputs_along("conv1d", "length", x, weight, 2, stride, padding, dilation);
  const Shape &s = x.shape(), &k = weight.shape();
  return ops::convolve(x.unsqueeze(2), weight.unsqueeze(2), bias,
                       {.n = s[0],
                        .c = s[1],
                        .h = 1,
                        .w = s[2],
                        .o = k[0],
                        .kh = 1,
                        .kw = k[2],
                        .oh = 1,
                        .ow = length,
                        .stride = {1, bounded_stride(stride, s[2], padding)},
                        .padding = {0, padding},
                        .dilation = {1, dilation},
                        .groups = options.groups})
      .squeeze(2);
}

}  // namespace brim
