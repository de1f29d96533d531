// clamp: y = x, moved into [min, max]
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>

#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor clamp(const Tensor& x, std::optional<double> min, std::optional<double> max) {
  static const ops::UnaryKernel kernel("clamp");
  static const ops::BinaryKernel grad_kernel("clamp_grad", "dy, s, dx");
  for (const std::optional<double>& bound : {min, max})  // infinity is no bound
    if (bound && !std::isinf(*bound)) ops::check_number("clamp", x, *bound);
  if (std::isnan(min.value_or(0)) || std::isnan(max.value_or(0)))
    return add(mul(x, 0), NAN);  // as in PyTorch; the gradient is 0
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const formula::Params bounds{.a = min.value_or(-kInfinity), .b = max.value_or(kInfinity)};
  return autograd::with_grad("clamp", ops::unary(kernel, x, bounds), {x},
                             [x = autograd::Saved(x), bounds](autograd::GradCall& g) {
                               g.set(0, ops::linear_grad(grad_kernel, g.dy(), g[x], bounds));
                             });
}

}  // namespace brim
