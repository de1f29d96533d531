// conv2d and conv1d, which is conv2d of images with one row
#include <brim/ops/conv.h>

#include "ops/autocast.h"
#include "ops/conv/convolve.h"

namespace brim {

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([&](const auto&... t) { return conv2d(t..., options); }, x, weight, bias);
  ops::check_operands("conv2d", x, weight, bias, 4, "weight (O, C / groups, KH, KW)");
  ops::check_channels("conv2d", x, weight, bias, options.groups);
  return ops::convolve(x, weight, bias, ops::geometry_2d("conv2d", x, weight.shape(), options));
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv1dOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([&](const auto&... t) { return conv1d(t..., options); }, x, weight, bias);
  ops::check_operands("conv1d", x, weight, bias, 3, "weight (O, C / groups, K)");
  ops::check_channels("conv1d", x, weight, bias, options.groups);
  const int64_t stride = options.stride, padding = options.padding, dilation = options.dilation;
  const int64_t length =
      ops::outputs_along("conv1d", "length", x, weight.shape(), 2, stride, padding, dilation);
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
                        .stride = {1, ops::bounded_stride(stride, s[2], padding)},
                        .padding = {0, padding},
                        .dilation = {1, dilation},
                        .groups = options.groups})
      .squeeze(2);
}

}  // namespace brim
