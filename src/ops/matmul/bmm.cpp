// bmm and outer: products of stacks of matrices, and of two vectors
#include <brim/ops/binary.h>
#include <brim/ops/matmul.h>

#include "ops/checks.h"

namespace brim {

Tensor bmm(const Tensor& a, const Tensor& b) {
  ops::check_rank("bmm", a, 3, "a (B, M, K)");
  ops::check_rank("bmm", b, 3, "b (B, K, N)");
  BRIM_CHECK(a.size(0) == b.size(0) && a.size(2) == b.size(1), ShapeError,
             "[bmm] {} x {}: expected (B, M, K) x (B, K, N); matmul broadcasts batches",
             a.shape().str(), b.shape().str());
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  ops::check_rank("outer", a, 1, "a (M)");
  ops::check_rank("outer", b, 1, "b (N)");
  return mul(a.unsqueeze(1), b);
}

}  // namespace brim
