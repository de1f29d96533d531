// conv_transpose2d: the convolution that conv2d's gradient of x is
#include <brim/ops/binary.h>
#include <brim/ops/conv.h>

#include "core/check.h"
#include "ops/autocast.h"
#include "ops/conv/convolve.h"

namespace brim {
namespace {

/// Size along an axis of an image whose convolution has x's size there.
int64_t image_size(const char* axis, const Tensor& x, const Tensor& weight, int number,
                   int64_t stride, int64_t padding, int64_t output_padding, int64_t dilation) {
  ops::check_steps("conv_transpose2d", axis, stride, padding, dilation);
  BRIM_CHECK(output_padding >= 0 && output_padding < stride, ValueError,
             "[conv_transpose2d] {}: output_padding {} must be below the stride {}", axis,
             output_padding, stride);
  const int64_t in = x.shape()[number], kernel = weight.shape()[number];
  const int64_t size =
      (in - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + output_padding;
  BRIM_CHECK(in >= 1 && kernel >= 1 && size >= 1, ShapeError,
             "[conv_transpose2d] x {} with weight {}: the result would have {} elements in {}; use "
             "less padding",
             x.shape().str(), weight.shape().str(), size, axis);
  return size;
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_low([&](const auto&... t) { return conv_transpose2d(t..., options); }, x,
                        weight, bias);
  ops::check_operands("conv_transpose2d", x, weight, bias, 4, "weight (C, O / groups, KH, KW)");
  const Shape &s = x.shape(), &k = weight.shape();
  BRIM_CHECK(s[1] == k[0] && options.groups >= 1 && s[1] % options.groups == 0, ShapeError,
             "[conv_transpose2d] x {} has {} channels for weight {} and {} group(s); both must "
             "have the same, a multiple of the groups",
             s.str(), s[1], k.str(), options.groups);
  const int64_t channels = k[1] * options.groups;
  ops::check_bias("conv_transpose2d", bias, weight, channels);
  const Pair st = options.stride, pad = options.padding, more = options.output_padding;
  const Pair dil = options.dilation;
  const Tensor y =
      ops::convolve_back(x, weight,
                         {.n = s[0],
                          .c = channels,
                          .h = image_size("height", x, weight, 2, st.h, pad.h, more.h, dil.h),
                          .w = image_size("width", x, weight, 3, st.w, pad.w, more.w, dil.w),
                          .o = s[1],
                          .kh = k[2],
                          .kw = k[3],
                          .oh = s[2],
                          .ow = s[3],
                          .stride = st,
                          .padding = pad,
                          .dilation = dil,
                          .groups = options.groups});
  return bias.defined() ? add(y, bias.view({channels, 1, 1})) : y;
}

}  // namespace brim
