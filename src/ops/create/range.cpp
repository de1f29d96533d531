// arange, linspace, eye: regular patterns
#include <cmath>

#include <brim/formula/formula.h>
#include <brim/ops/create.h>
#include <brim/ops/shape.h>

#include "backend/kernel.h"
#include "ops/checks.h"
#include "ops/memory/copy.h"

namespace brim {

using RangeKernel = backend::Kernel<void(const Context&, Tensor& y, const formula::Params&)>;

Tensor detail::arange(double start, double end, double step, const TensorOptions& options) {
  static const RangeKernel kernel("arange", {.operands = "y"});
  BRIM_CHECK(std::isfinite(start) && std::isfinite(end) && std::isfinite(step) && step != 0,
             ValueError,
             "[arange] start {}, end {}, step {}: use finite numbers and a step that is "
             "not 0",
             start, end, step);
  BRIM_CHECK((end - start) * step >= 0, ValueError,
             "[arange] a step of {} leads away from {} at {}; change its sign", step, end, start);
  if (is_integral(options.dtype))
    for (double v : {start, end, step}) ops::check_whole("arange", v);
  const double count = std::ceil((end - start) / step);
  BRIM_CHECK(count < 0x1p53, ValueError, "[arange] {} elements are too many; use a larger step",
             count);
  Tensor y = Tensor::empty({static_cast<int64_t>(count)}, options.dtype, options.device);
  kernel(y.device(), y.dtype(), y, {.a = start, .b = step});
  if (options.requires_grad) y.set_requires_grad();
  return y;
}

Tensor linspace(double start, double end, int64_t steps, const TensorOptions& options) {
  static const RangeKernel kernel("linspace", {.operands = "y"});
  BRIM_CHECK(steps >= 0, ValueError, "[linspace] {} steps; use 0 or more", steps);
  Tensor y = Tensor::empty({steps}, options.dtype, options.device);
  kernel(y.device(), y.dtype(), y, {.a = start, .b = end});
  if (options.requires_grad) y.set_requires_grad();
  return y;
}

Tensor eye(int64_t n, int64_t m, const TensorOptions& options) {
  Tensor y = zeros({n, m == -1 ? n : m}, {.dtype = options.dtype, .device = options.device});
  Tensor ones = diagonal(y);
  ops::fill_elements(ones, 1);
  if (options.requires_grad) y.set_requires_grad();
  return y;
}

}  // namespace brim
