// sum and mean over any axes
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/reduce/reduction.h"

namespace brim {

Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return sum(t, axes, keepdim); }, x);
  static const ops::ReduceKernel kernel("sum");
  const ops::Reduction r("sum", x, axes);
  const DType dtype = is_integral(x.dtype()) ? DType::i64 : x.dtype();
  const Tensor y = ops::reduce(kernel, x, r, keepdim, dtype);
  return autograd::with_grad("sum", y, {x}, [from = r.from, kept = r.kept](autograd::GradCall& g) {
    g.set(0, g.dy().reshape(kept).expand(from));
  });
}

Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return mean(t, axes, keepdim); }, x);
  static const ops::ReduceKernel kernel("mean");
  ops::check_floating("mean", x);
  const ops::Reduction r("mean", x, axes);
  const Tensor y = ops::reduce(kernel, x, r, keepdim, x.dtype());
  return autograd::with_grad(
      "mean", y, {x}, [from = r.from, kept = r.kept, n = r.count](autograd::GradCall& g) {
        // Scaled before it is expanded: the small tensor is the cheap one. Nothing gets no
        // gradient; a factor of infinity would be NaN in the second one.
        const double share = 1.0 / static_cast<double>(std::max<int64_t>(n, 1));
        g.set(0, mul(g.dy(), share).reshape(kept).expand(from));
      });
}

Tensor Tensor::sum(const std::vector<int>& axes, bool keepdim) const {
  return brim::sum(*this, axes, keepdim);
}
Tensor Tensor::mean(const std::vector<int>& axes, bool keepdim) const {
  return brim::mean(*this, axes, keepdim);
}

}  // namespace brim
