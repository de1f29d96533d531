// prod over any axes
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>

#include "autograd/node.h"
#include "ops/reduce/reduction.h"

namespace brim {
namespace {

/// The product of all other elements, by dividing. Zeros are counted and left out first, since a
/// single one leaves the others' product and two leave nothing. Has no gradient where x is 0.
Tensor others_by_division(const Tensor& x, const std::vector<int>& axes) {
  const Tensor is_zero = eq(x, 0.0);
  const Tensor zeros = sum(is_zero, axes, /*keepdim=*/true);
  const Tensor filled = masked_fill(x, is_zero, 1);
  const Tensor others = div(prod(filled, axes, true), filled);
  const Tensor counts = where(is_zero, eq(zeros, 1.0), eq(zeros, 0.0));
  return masked_fill(others, logical_not(counts), 0);
}

/// The same by multiplying, n times n: differentiable everywhere. x: (..., n)
Tensor others_by_product(const Tensor& x) {
  const int64_t n = x.shape().back();
  Tensor diagonal = zeros({n, n}, {.dtype = DType::bool_, .device = x.device()});
  diagonal.alias({n}, {n + 1}, 0).fill_(1);
  Shape square = x.shape();
  square.push_back(n);
  return prod(masked_fill(x.unsqueeze(-2).expand(square), diagonal, 1), {-1});
}

Tensor others(const Tensor& x, const ops::Reduction& r) {
  constexpr int64_t kSquareLimit = 256;
  std::vector<int> order, axes;
  for (int i = 0; i < x.rank(); ++i)
    (r.reduced[static_cast<size_t>(i)] ? axes : order).push_back(i);
  if (!grad_enabled() || r.count > kSquareLimit || x.rank() == 0)
    return others_by_division(x, axes);
  order.insert(order.end(), axes.begin(), axes.end());
  const Tensor moved = x.permute(order);
  Shape rows = r.dropped;
  rows.push_back(r.count);
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return others_by_product(moved.reshape(rows)).reshape(moved.shape()).permute(back);
}

}  // namespace

Tensor prod(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  static const ops::ReduceKernel kernel("prod");
  const ops::Reduction r("prod", x, axes);
  const DType dtype = is_integral(x.dtype()) ? DType::i64 : x.dtype();
  const Tensor y = ops::reduce(kernel, x, r, keepdim, dtype);
  return autograd::with_grad("prod", y, {x}, [x = autograd::Saved(x), r](autograd::GradCall& g) {
    const Tensor from = g[x];
    g.set(0, from.numel() == 0 ? zeros_like(from) : g.dy().reshape(r.kept) * others(from, r));
  });
}

}  // namespace brim
