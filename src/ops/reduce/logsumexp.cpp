// logsumexp over any axes
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/reduce/reduction.h"

namespace brim {

Tensor logsumexp(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return logsumexp(t, axes, keepdim); }, x);
  static const ops::ReduceKernel kernel("logsumexp");
  ops::check_floating("logsumexp", x);
  const ops::Reduction r("logsumexp", x, axes);
  // Kernels see rows: the reduced axes last.
  std::vector<int> order, reduced;
  for (int i = 0; i < x.rank(); ++i)
    (r.reduced[static_cast<size_t>(i)] ? reduced : order).push_back(i);
  order.insert(order.end(), reduced.begin(), reduced.end());
  Shape rows = {r.dropped.numel(), r.count};
  const Tensor from = x.detach().permute(order).contiguous();
  Tensor y = Tensor::empty(keepdim ? r.kept : r.dropped, x.dtype(), x.device());
  kernel(x.device(), x.dtype(), from.alias(rows, contiguous_strides(rows), from.offset()), y);
  return autograd::with_grad(
      "logsumexp", y, {x},
      [x = autograd::Saved(x), y = autograd::Saved::output(y), r](autograd::GradCall& g) {
        g.set(0, g.dy().reshape(r.kept) * exp(g[x] - g[y].reshape(r.kept)));
      });
}

}  // namespace brim
