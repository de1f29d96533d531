#include "ops/pool/geometry.h"

#include "ops/checks.h"

namespace brim::ops {
namespace {

int64_t output_size(const char* op, const char* axis, int64_t in, int64_t kernel, int64_t stride,
                    int64_t padding, int64_t dilation, bool ceil_mode, const Tensor& x) {
  BRIM_CHECK(kernel >= 1 && stride >= 1 && dilation >= 1, ValueError,
             "[{}] {}: kernel {}, stride {} and dilation {} must be 1 or more", op, axis, kernel,
             stride, dilation);
  BRIM_CHECK(padding >= 0 && padding <= kernel / 2, ValueError,
             "[{}] {}: padding {} must be between 0 and half the kernel of {}", op, axis, padding,
             kernel);
  BRIM_CHECK(in >= 1, ShapeError, "[{}] x {} has no {}; only N and C may be 0", op, x.shape().str(),
             axis);
  const int64_t room =
      in + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  BRIM_CHECK(room >= 0, ShapeError,
             "[{}] x {}: the window of {} (dilation {}) is larger than its {} of {} with padding{}",
             op, x.shape().str(), kernel, dilation, axis, in + 2 * padding,
             ceil_mode ? ", beyond which it may reach by less than the stride" : "");
  int64_t out = room / stride + 1;
  // A window must start inside the image or its left padding.
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  return out;
}

}  // namespace

backend::PoolGeometry pool_geometry(const char* op, const Tensor& x, Pair kernel, Pair stride,
                                    Pair padding, Pair dilation, bool ceil_mode) {
  check_rank(op, x, 4, "x (N, C, H, W)");
  check_floating(op, x);
  const Shape& s = x.shape();
  return {
      .n = s[0],
      .c = s[1],
      .h = s[2],
      .w = s[3],
      .oh =
          output_size(op, "height", s[2], kernel.h, stride.h, padding.h, dilation.h, ceil_mode, x),
      .ow = output_size(op, "width", s[3], kernel.w, stride.w, padding.w, dilation.w, ceil_mode, x),
      .kernel = kernel,
      .stride = stride,
      .padding = padding,
      .dilation = dilation};
}

}  // namespace brim::ops
