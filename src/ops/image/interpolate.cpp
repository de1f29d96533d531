// interpolate: images at other sizes, an axis at a time
#include <brim/ops/interpolate.h>

#include <algorithm>
#include <cmath>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/unary.h>

#include "ops/checks.h"

namespace brim {
namespace {

/// How an axis of `from` elements becomes one of `to`; a pixel of the result is `step` wide in x.
struct Resize {
  int axis;
  int64_t from, to;
  double step;
};

/// Each element `times` times along height and width: one copy.
Tensor enlarge(const Tensor& x, Pair times) {
  const Shape& s = x.shape();
  return x.reshape({s[0], s[1], s[2], 1, s[3], 1})
      .expand({s[0], s[1], s[2], times.h, s[3], times.w})
      .reshape({s[0], s[1], s[2] * times.h, s[3] * times.w});
}

/// Places are rounded in the dtype of x, as PyTorch rounds them.
Tensor nearest_along(const Tensor& x, const Resize& r) {
  const DType dtype = ops::statistics_dtype(x.dtype());
  const Tensor number = arange(r.to, {.dtype = dtype, .device = x.device()});
  const Tensor at = clamp(floor(mul(number, r.step)), {}, static_cast<double>(r.from - 1));
  return index_select(x, r.axis, at.to(i64));
}

/// x: f32 or f64. Between the element at or before a place and the next one.
Tensor linear_along(const Tensor& x, const Resize& r, bool align_corners) {
  const double last = static_cast<double>(r.from - 1);
  const Tensor number = arange(r.to, {.dtype = f64, .device = x.device()});
  const Tensor place =
      align_corners ? mul(number, r.step) : clamp(sub(mul(add(number, 0.5), r.step), 0.5), 0);
  const Tensor before = clamp(floor(place), {}, last);
  Shape along = Shape::filled(4, 1);
  along[r.axis] = r.to;
  const Tensor share = sub(place, before).to(x.dtype()).view(along);
  const Tensor a = index_select(x, r.axis, before.to(i64));
  const Tensor b = index_select(x, r.axis, clamp(add(before, 1), {}, last).to(i64));
  return add(mul(a, sub(1, share)), mul(b, share));
}

Resize resize(const char* name, int axis, const Tensor& x, int64_t size,
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
  return {axis, from, to, step};
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
  const Resize rows = resize("height", 2, x, options.size.h, options);
  const Resize columns = resize("width", 3, x, options.size.w, options);
  if (options.mode == Interpolation::nearest) {
    const Pair times = {rows.to / rows.from, columns.to / columns.from};
    const auto divides = [](const Resize& r) {
      const int64_t factor = r.to / r.from;
      return r.to % r.from == 0 && r.step * static_cast<double>(factor) == 1;
    };
    if (divides(rows) && divides(columns)) return enlarge(x, times);
    return nearest_along(nearest_along(x, rows), columns);
  }
  const Tensor wide = x.to(ops::statistics_dtype(x.dtype()));
  const Tensor y =
      linear_along(linear_along(wide, rows, options.align_corners), columns, options.align_corners);
  return y.to(x.dtype());
}

}  // namespace brim
