// relu: y = max(x, 0)
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "backend/fused/mask_bits.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

[[maybe_unused]] const bool masked = backend::register_mask_operand("relu_grad", "s");

}  // namespace

Tensor relu(const Tensor& x) {
  static const ops::UnaryKernel kernel("relu");
  static const ops::BinaryKernel grad_kernel("relu_grad", "dy, s, dx");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("relu", y, {x},
                             [y = autograd::Saved::output(y)](autograd::GradCall& g) {
                               g.set(0, ops::linear_grad(grad_kernel, g.dy(), g[y]));
                             });
}

}  // namespace brim
