// prod over any axes
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "ops/autocast.h"
#include "ops/reduce/reduction.h"

namespace brim {
namespace {

/// The product of all other elements of each row, without dividing, so differentiable also where x
/// is 0: both halves share the products of the other pairs. x: (rows, n)
Tensor others_of_rows(const Tensor& x) {
  const int64_t n = x.shape()[1], half = n / 2;
  if (n == 1) return ones_like(x);
  if (n % 2 == 1) return others_of_rows(pad(x, {0, 1}, PadMode::constant, 1)).slice(1, 0, n);
  const Tensor left = x.slice(1, 0, half), right = x.slice(1, half, n);
  const Tensor rest = others_of_rows(left * right);
  return cat({rest * right, rest * left}, 1);
}

/// The same for each element of x.
Tensor others(const Tensor& x, const ops::Reduction& r) {
  std::vector<int> order, reduced;
  for (int i = 0; i < x.rank(); ++i)
    (r.reduced[static_cast<size_t>(i)] ? reduced : order).push_back(i);
  order.insert(order.end(), reduced.begin(), reduced.end());
  const Tensor moved = x.permute(order);
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  const Tensor rows = moved.reshape({r.dropped.numel(), r.count});
  const Tensor products = others_of_rows(rows);
  // Numbers whose product overflows before it meets a 0 give NaN; it is 0.
  const Tensor numbers = all(isfinite(rows), {1}, /*keepdim=*/true);
  return masked_fill(products, logical_and(isnan(products), numbers), 0)
      .reshape(moved.shape())
      .permute(back);
}

}  // namespace

Tensor prod(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  if (ops::autocasting()) [[unlikely]]
    return ops::run_wide([&](const Tensor& t) { return prod(t, axes, keepdim); }, x);
  static const ops::ReduceKernel kernel("prod");
  const ops::Reduction r("prod", x, axes);
  const DType dtype = is_integral(x.dtype()) ? DType::i64 : x.dtype();
  const Tensor y = ops::reduce(kernel, x, r, keepdim, dtype);
  return autograd::with_grad("prod", y, {x}, [x = autograd::Saved(x), r](autograd::GradCall& g) {
    const Tensor from = g[x];
    if (from.numel() == 0) return g.set(0, zeros_like(from));
    // In f64, as the kernel multiplies: few numbers have a product beyond f32.
    const Tensor dx = g.dy().to(f64).reshape(r.kept) * others(from.to(f64), r);
    g.set(0, dx.to(from.dtype()));
  });
}

}  // namespace brim
