// dropout: the mask is never stored, its key makes it again for the gradient
#include "ops/regularize/dropout.h"

#include <brim/ops/dropout.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/checks.h"

namespace brim {

/// Linear and symmetric, so it is its own gradient.
Tensor ops::dropout_by_key(const Tensor& x, double p, const RandomKey& key) {
  static const backend::Kernel<void(const Context&, const Tensor& x, Tensor& y, double p,
                                    const RandomKey& key)>
      kernel("dropout", {.operands = "x, y", .work = backend::Work::pointwise});
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernel(x.device(), x.dtype(), x.detach().contiguous(), y, p, key);
  return autograd::with_grad("dropout", y, {x}, [p, key](autograd::GradCall& g) {
    g.set(0, dropout_by_key(g.dy(), p, key));
  });
}

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator) {
  ops::check_floating("dropout", x);
  BRIM_CHECK(p >= 0 && p <= 1, ValueError, "[dropout] probability {} is outside [0, 1]", p);
  if (!training || p == 0) return x;
  Generator& numbers = generator ? *generator : Generator::global();
  return ops::dropout_by_key(x, p, numbers.next_of_samples(x.numel()));
}

}  // namespace brim
