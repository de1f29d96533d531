// erf: the error function
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "ops/elementwise.h"

namespace brim {
namespace {
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
}

Tensor erf(const Tensor& x) {
  static const ops::UnaryKernel kernel("erf");
  return autograd::with_grad("erf", ops::unary(kernel, x), {x},
                             [x = autograd::Saved(x)](autograd::GradCall& g) {
                               g.set(0, mul(mul(g.dy(), exp(neg(square(g[x])))), kTwoOverSqrtPi));
                             });
}

}  // namespace brim
