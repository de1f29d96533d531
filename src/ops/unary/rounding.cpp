// floor, ceil, round (half to even) and sign: steps, whose gradient is 0
#include <brim/ops/create.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {

Tensor floor(const Tensor& x) {
  static const ops::UnaryKernel kernel("floor");
  return autograd::with_grad("floor", ops::unary(kernel, x), {x},
                             [](autograd::GradCall& g) { g.set(0, zeros_like(g.dy())); });
}

Tensor ceil(const Tensor& x) {
  static const ops::UnaryKernel kernel("ceil");
  return autograd::with_grad("ceil", ops::unary(kernel, x), {x},
                             [](autograd::GradCall& g) { g.set(0, zeros_like(g.dy())); });
}

Tensor round(const Tensor& x) {
  static const ops::UnaryKernel kernel("round");
  return autograd::with_grad("round", ops::unary(kernel, x), {x},
                             [](autograd::GradCall& g) { g.set(0, zeros_like(g.dy())); });
}

Tensor sign(const Tensor& x) {
  static const ops::UnaryKernel kernel("sign");
  return autograd::with_grad("sign", ops::unary(kernel, x), {x},
                             [](autograd::GradCall& g) { g.set(0, zeros_like(g.dy())); });
}

}  // namespace brim
