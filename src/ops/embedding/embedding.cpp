// embedding: rows of a table, and their sums back into it
#include <brim/ops/embedding.h>

#include "autograd/node.h"
#include "backend/kernel.h"
#include "ops/checks.h"

namespace brim {
namespace {

constexpr int64_t kNoRow = -1;

Tensor scatter_rows(const Tensor& dy, const Tensor& ids, int64_t rows, int64_t skip);

/// weight[ids], with zeros instead of the row `zero`. ids: i64, row-major.
Tensor gather_rows(const Tensor& weight, const Tensor& ids, int64_t zero, int64_t skip) {
  static const backend::Kernel<void(const Context&, const Tensor& weight, const Tensor& ids,
                                    Tensor& y, int64_t zero)>
      kernel("embedding", {.operands = "weight, ids, y"});
  Shape shape = ids.shape();
  shape.push_back(weight.shape()[1]);
  Tensor y = Tensor::empty(shape, weight.dtype(), weight.device());
  kernel(weight.device(), weight.dtype(), weight.detach().contiguous(), ids, y, zero);
  return autograd::with_grad(
      "embedding", y, {weight},
      [ids = autograd::Saved(ids), rows = weight.shape()[0], skip](autograd::GradCall& g) {
        g.set(0, scatter_rows(g.dy(), g[ids], rows, skip));
      });
}

/// The sum of dy's rows by id, without those of `skip`.
Tensor scatter_rows(const Tensor& dy, const Tensor& ids, int64_t rows, int64_t skip) {
  static const backend::Kernel<void(const Context&, const Tensor& dy, const Tensor& ids,
                                    Tensor& dweight, int64_t skip)>
      kernel("embedding_grad", {.operands = "dy, ids, dweight"});
  Tensor dw = Tensor::empty({rows, dy.shape().back()}, dy.dtype(), dy.device());
  kernel(dy.device(), dy.dtype(), dy.detach().contiguous(), ids, dw, skip);
  return autograd::with_grad("embedding_grad", dw, {dy},
                             [ids = autograd::Saved(ids), skip](autograd::GradCall& g) {
                               g.set(0, gather_rows(g.dy(), g[ids], skip, skip));
                             });
}

}  // namespace

Tensor embedding(const Tensor& ids, const Tensor& weight, std::optional<int64_t> padding_idx) {
  (void)ops::common_device("embedding", ids, weight);
  ops::check_floating("embedding", weight);
  ops::check_rank("embedding", weight, 2, "a weight (V, D)");
  BRIM_CHECK(ids.dtype() == DType::i64 || ids.dtype() == DType::i32, DTypeError,
             "[embedding] ids are {}; they must be i64 or i32", name(ids.dtype()));
  int64_t skip = kNoRow;
  if (padding_idx) {
    const int64_t rows = weight.shape()[0];
    BRIM_CHECK(*padding_idx >= -rows && *padding_idx < rows, IndexError,
               "[embedding] padding_idx {} is out of range for {} rows", *padding_idx, rows);
    skip = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
  }
  return gather_rows(weight, ids.to(DType::i64).contiguous(), kNoRow, skip);
}

}  // namespace brim
