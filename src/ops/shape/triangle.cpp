// tril and triu: one triangle of matrices, zeros in the other
#include <brim/ops/shape.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/checks.h"

namespace brim {
namespace {

Tensor triangle(const char* op, const Tensor& x, int64_t diagonal, bool upper) {
  static const backend::Kernel<void(const Context&, const Tensor&, Tensor&, int64_t, bool)> kernel(
      "triangle", {.operands = "x, y"});
  ops::check_defined(op, x);
  BRIM_CHECK(x.rank() >= 2, ShapeError, "[{}] expects (.., rows, columns), got shape {}", op,
             x.shape().str());
  const int64_t rows = x.shape()[x.rank() - 2], columns = x.shape().back();
  diagonal = std::clamp(diagonal, -rows - 1, columns + 1);  // beyond, nothing changes
  const Tensor dense = x.detach().contiguous();
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  kernel(x.device(), x.dtype(), dense, y, diagonal, upper);
  return autograd::with_grad(op, y, {x}, [op, diagonal, upper](autograd::GradCall& g) {
    g.set(0, triangle(op, g.dy(), diagonal, upper));
  });
}

}  // namespace

Tensor tril(const Tensor& x, int64_t diagonal) { return triangle("tril", x, diagonal, false); }
Tensor triu(const Tensor& x, int64_t diagonal) { return triangle("triu", x, diagonal, true); }

}  // namespace brim
