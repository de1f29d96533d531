// gelu: y = x Phi(x), exact or with the tanh approximation
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>
#include "autograd/node.h"
#include "formula/activation.h"
#include "ops/elementwise.h"

namespace brim {
namespace {

Tensor gelu_exact(const Tensor& x) {
  static const ops::UnaryKernel kernel("gelu");
  static const ops::BinaryKernel grad_kernel("gelu_grad", "dy, s, dx");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("gelu", y, {x}, [x = autograd::Saved(x)](autograd::GradCall& g) {
    g.set(0, ops::fused_grad(grad_kernel, g.dy(), g[x], {}, [](const Tensor& dy, const Tensor& tx) {
            const Tensor cdf = mul(erf(mul(tx, formula::kSqrtHalf)) + 1, 0.5);
            const Tensor pdf = mul(exp(mul(square(tx), -0.5)), formula::kInvSqrt2Pi);
            return mul(dy, cdf + mul(tx, pdf));
          }));
  });
}

Tensor gelu_tanh(const Tensor& x) {
  static const ops::UnaryKernel kernel("gelu_tanh");
  static const ops::BinaryKernel grad_kernel("gelu_tanh_grad", "dy, s, dx");
  const Tensor y = ops::unary(kernel, x);
  return autograd::with_grad("gelu_tanh", y, {x}, [x = autograd::Saved(x)](autograd::GradCall& g) {
    g.set(0, ops::fused_grad(grad_kernel, g.dy(), g[x], {}, [](const Tensor& dy, const Tensor& tx) {
            const Tensor x2 = square(tx);
            const Tensor u = mul(mul(tx, mul(x2, formula::kGeluCubic) + 1), formula::kSqrt2OverPi);
            const Tensor du = mul(mul(x2, 3 * formula::kGeluCubic) + 1, formula::kSqrt2OverPi);
            const Tensor t = tanh(u);
            return mul(mul(dy, 0.5), (t + 1) + mul(tx, mul(1 - square(t), du)));
          }));
  });
}

}  // namespace

Tensor gelu(const Tensor& x, GeluForm form) {
  return form == GeluForm::exact ? gelu_exact(x) : gelu_tanh(x);
}

}  // namespace brim
