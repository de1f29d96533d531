#include <algorithm>

#include "ops/checks.h"

#include "ops/conv/convolve.h"

namespace brim::ops {

void check_operands(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int rank, const char* weight_layout) {
  common_device(op, x, weight);
  common_dtype(op, x, weight);
  check_rank(op, x, rank, rank == 3 ? "x (N, C, L)" : "x (N, C, H, W)");
  check_rank(op, weight, rank, weight_layout);
  if (!bias.defined()) return;
  common_device(op, x, bias);
  common_dtype(op, x, bias);
}

void check_bias(const char* op, const Tensor& bias, const Tensor& weight, int64_t channels) {
  BRIM_CHECK(!bias.defined() || bias.shape() == Shape{channels}, ShapeError,
             "[{}] bias {} with weight {}: expected ({})", op, bias.shape().str(),
             weight.shape().str(), channels);
}

void check_channels(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    int64_t groups) {
  const Shape &s = x.shape(), &k = weight.shape();
  BRIM_CHECK(groups >= 1 && s[1] % groups == 0 && k[0] % groups == 0, ShapeError,
             "[{}] {} groups do not divide the {} channels of x {} and the {} of weight {}", op,
             groups, s[1], s.str(), k[0], k.str());
  BRIM_CHECK(s[1] == k[1] * groups, ShapeError,
             "[{}] x {} has {} channels, but weight {} with {} group(s) expects {}", op, s.str(),
             s[1], k.str(), groups, k[1] * groups);
  check_bias(op, bias, weight, k[0]);
}

void check_steps(const char* op, const char* axis, int64_t stride, int64_t padding,
                 int64_t dilation) {
  BRIM_CHECK(stride >= 1 && dilation >= 1 && padding >= 0, ValueError,
             "[{}] {}: stride {} and dilation {} must be 1 or more, padding {} 0 or more", op, axis,
             stride, dilation, padding);
}

int64_t outputs_along(const char* op, const char* axis, const Tensor& x, const Shape& weight,
                      int number, int64_t stride, int64_t padding, int64_t dilation) {
  check_steps(op, axis, stride, padding, dilation);
  const int64_t in = x.shape()[number], kernel = weight[number];
  const int64_t reach = dilation * (kernel - 1) + 1;
  BRIM_CHECK(kernel >= 1 && in + 2 * padding >= reach, ShapeError,
             "[{}] x {} with weight {}: the kernel spans {} elements in {}, but x has {} with its "
             "padding; use a smaller kernel or more padding",
             op, x.shape().str(), weight.str(), reach, axis, in + 2 * padding);
  return (in + 2 * padding - reach) / stride + 1;
}

int64_t bounded_stride(int64_t stride, int64_t size, int64_t padding) {
  return std::min(stride, std::max<int64_t>(size + 2 * padding, 1));
}

ConvGeometry geometry_2d(const char* op, const Tensor& x, const Shape& weight,
                         const Conv2dOptions& options) {
  const Shape& s = x.shape();
  const Pair st = options.stride, pad = options.padding, dil = options.dilation;
  return {.n = s[0],
          .c = s[1],
          .h = s[2],
          .w = s[3],
          .o = weight[0],
          .kh = weight[2],
          .kw = weight[3],
          .oh = outputs_along(op, "height", x, weight, 2, st.h, pad.h, dil.h),
          .ow = outputs_along(op, "width", x, weight, 3, st.w, pad.w, dil.w),
          .stride = {bounded_stride(st.h, s[2], pad.h), bounded_stride(st.w, s[3], pad.w)},
          .padding = pad,
          .dilation = dil,
          .groups = options.groups};
}

}  // namespace brim::ops
