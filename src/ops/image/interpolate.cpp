// interpolate: images at other sizes, in one kernel, or an axis at a time where a device has none.
// It is linear: the gradient spreads dy over what it was made of, and the gradient of that is
// interpolation itself.
#include <brim/ops/interpolate.h>

#include <algorithm>
#include <cmath>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "backend/options/resize.h"
#include "ops/checks.h"
#include "ops/memory_format.h"

namespace brim {
namespace {

using backend::ResizeAxis;
using backend::ResizeGeometry;
using InterpolateKernel =
    backend::Kernel<void(const Context&, const Tensor& from, Tensor& to, const ResizeGeometry&)>;

const InterpolateKernel& forward_kernel() {
  static const InterpolateKernel kernel("interpolate", {.operands = "x, y", .activations = "x, y"});
  return kernel;
}
const InterpolateKernel& gradient_kernel() {
  static const InterpolateKernel kernel("interpolate_grad",
                                        {.operands = "dy, dx", .activations = "dy, dx"});
  return kernel;
}

enum class Way : uint8_t { forward, gradient };

/// Each way's gradient is the other way.
Tensor fused(Way way, const Tensor& x, const ResizeGeometry& geo) {
  const bool is_forward = way == Way::forward;
  const Tensor from = ops::dense(x);
  Tensor to = ops::empty_in(is_forward ? geo.y_shape() : geo.x_shape(), x.dtype(), from);
  (is_forward ? forward_kernel() : gradient_kernel())(x.device(), x.dtype(), from, to, geo);
  return autograd::with_grad("interpolate", to, {x}, [is_forward, geo](autograd::GradCall& g) {
    g.set(0, fused(is_forward ? Way::gradient : Way::forward, g.dy(), geo));
  });
}

/// Each element `times` times along height and width: one copy.
Tensor enlarge(const Tensor& x, Pair times) {
  const Shape& s = x.shape();
  return x.reshape({s[0], s[1], s[2], 1, s[3], 1})
      .expand({s[0], s[1], s[2], times.h, s[3], times.w})
      .reshape({s[0], s[1], s[2] * times.h, s[3] * times.w});
}

/// Places are rounded in the dtype of x, as PyTorch rounds them.
Tensor nearest_along(const Tensor& x, int axis, const ResizeAxis& r) {
  const DType dtype = ops::statistics_dtype(x.dtype());
  const Tensor number = arange(r.to, {.dtype = dtype, .device = x.device()});
  const Tensor at = clamp(floor(mul(number, r.step)), {}, static_cast<double>(r.from - 1));
  return index_select(x, axis, at.to(i64));
}

/// x: f32 or f64. Between the element at or before a place and the next one.
Tensor linear_along(const Tensor& x, int axis, const ResizeAxis& r, bool align_corners) {
  const double last = static_cast<double>(r.from - 1);
  const Tensor number = arange(r.to, {.dtype = f64, .device = x.device()});
  const Tensor place =
      align_corners ? mul(number, r.step) : clamp(sub(mul(add(number, 0.5), r.step), 0.5), 0);
  const Tensor before = clamp(floor(place), {}, last);
  Shape along = Shape::filled(4, 1);
  along[axis] = r.to;
  const Tensor share = sub(place, before).to(x.dtype()).view(along);
  const Tensor a = index_select(x, axis, before.to(i64));
  const Tensor b = index_select(x, axis, clamp(add(before, 1), {}, last).to(i64));
  return add(mul(a, sub(1, share)), mul(b, share));
}

/// Made of ops, for devices without the kernel.
Tensor composed(const Tensor& x, const ResizeGeometry& geo) {
  const auto [rows, columns] = std::pair(geo.rows, geo.columns);
  if (!geo.bilinear) {
    const int64_t height = rows.times(), width = columns.times();
    if (height > 0 && width > 0) return enlarge(x, {height, width});
    return nearest_along(nearest_along(x, 2, rows), 3, columns);
  }
  const Tensor wide = x.to(ops::statistics_dtype(x.dtype()));
  const Tensor tall = linear_along(wide, 2, rows, geo.align_corners);
  return linear_along(tall, 3, columns, geo.align_corners).to(x.dtype());
}

ResizeAxis resize(const char* name, int axis, const Tensor& x, int64_t size,
                  const InterpolateOptions& o) {
  const int64_t from = x.shape()[axis];
  const int64_t to =
      size != 0 ? size : static_cast<int64_t>(std::floor(static_cast<double>(from) * o.scale));
  BRIM_CHECK(from >= 1 && to >= 1, ValueError,
             "[interpolate] {} of shape {} would become {}; both must be 1 or more", name,
             x.shape().str(), to);
  const bool nearest = o.mode == Interpolation::nearest, corners = !nearest && o.align_corners;
  // PyTorch's shortcut: an axis that is doubled repeats each element, whatever fraction was asked.
  const bool by_sizes = size != 0 || (nearest && (to == from || to == 2 * from));
  const double wide = static_cast<double>(from), narrow = static_cast<double>(to);
  const double step = corners    ? (to > 1 ? (wide - 1) / (narrow - 1) : 0)
                      : by_sizes ? wide / narrow
                                 : 1 / o.scale;
  return {from, to, step};
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  ops::check_floating("interpolate", x);
  ops::check_rank("interpolate", x, 4, "x (N, C, H, W)");
  const bool by_size = options.size != Pair(0);
  BRIM_CHECK(by_size != (options.scale != 0), ValueError,
             "[interpolate] give either the size of the result or a scale");
  BRIM_CHECK(by_size || (options.scale > 0 && std::isfinite(options.scale)), ValueError,
             "[interpolate] scale {} must be above 0", options.scale);
  BRIM_CHECK(!by_size || std::min(options.size.h, options.size.w) >= 1, ValueError,
             "[interpolate] size ({}, {}) must be 1 or more", options.size.h, options.size.w);
  const ResizeGeometry geo = {.n = x.shape()[0],
                              .c = x.shape()[1],
                              .rows = resize("height", 2, x, options.size.h, options),
                              .columns = resize("width", 3, x, options.size.w, options),
                              .bilinear = options.mode == Interpolation::bilinear,
                              .align_corners = options.align_corners};
  const auto exists = [&](const InterpolateKernel& kernel) {
    return kernel.exists(x.device(), x.dtype());
  };
  if (exists(forward_kernel()) && exists(gradient_kernel())) return fused(Way::forward, x, geo);
  return composed(x, geo);
}

}  // namespace brim
