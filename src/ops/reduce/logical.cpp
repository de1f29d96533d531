// any and all over any axes
#include <brim/ops/reduce.h>

#include "ops/reduce/reduction.h"

namespace brim {

Tensor any(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  static const ops::ReduceKernel kernel("any");
  return ops::reduce(kernel, x, ops::Reduction("any", x, axes), keepdim, DType::bool_);
}

Tensor all(const Tensor& x, const std::vector<int>& axes, bool keepdim) {
  static const ops::ReduceKernel kernel("all");
  return ops::reduce(kernel, x, ops::Reduction("all", x, axes), keepdim, DType::bool_);
}

}  // namespace brim
