// amax and amin over any axes
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "ops/reduce/reduction.h"

namespace brim {
namespace {

Tensor extreme(const ops::ReduceKernel& kernel, const char* op, const Tensor& x,
               const std::vector<int>& axes, bool keepdim) {
  const ops::Reduction r(op, x, axes);
  BRIM_CHECK(r.count > 0, ValueError, "[{}] shape {} has nothing to choose from along the axes", op,
             x.shape().str());
  const Tensor y = ops::reduce(kernel, x, r, keepdim, x.dtype());
  return autograd::with_grad(
      op, y, {x},
      [x = autograd::Saved(x), y = autograd::Saved::output(y), r](autograd::GradCall& g) {
        const Tensor from = g[x].detach(), to = g[y].detach().reshape(r.kept);
        std::vector<int> reduced;
        for (int i = 0; i < from.rank(); ++i)
          if (r.reduced[static_cast<size_t>(i)]) reduced.push_back(i);
        const Tensor chosen = eq(from, to).to(from.dtype());
        g.set(0, div(g.dy().reshape(r.kept), sum(chosen, reduced, /*keepdim=*/true)) * chosen);
      });
}

}  // namespace

Tensor amax(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  static const ops::ReduceKernel kernel("max");
  return extreme(kernel, "amax", x, axes, keepdim);
}

Tensor amin(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  static const ops::ReduceKernel kernel("min");
  return extreme(kernel, "amin", x, axes, keepdim);
}

Tensor Tensor::max() const { return amax(*this); }
Tensor Tensor::min() const { return amin(*this); }

}  // namespace brim
