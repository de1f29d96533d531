// eq, ne, lt, le, gt, ge: comparisons of two tensors, and of a tensor with a number
#include <brim/ops/compare.h>

#include "ops/elementwise.h"

namespace brim {

#define BRIM_COMPARE_OP(op)                              \
  Tensor op(const Tensor& a, const Tensor& b) {          \
    static const ops::BinaryKernel kernel(#op);          \
    return ops::compare(kernel, #op, a, b);              \
  }                                                      \
  Tensor op(const Tensor& x, double value) {             \
    static const ops::UnaryKernel kernel(#op "_scalar"); \
    return ops::predicate(kernel, x, {.a = value});      \
  }
BRIM_COMPARE_OP(eq)
BRIM_COMPARE_OP(ne)
BRIM_COMPARE_OP(lt)
BRIM_COMPARE_OP(le)
BRIM_COMPARE_OP(gt)
BRIM_COMPARE_OP(ge)
#undef BRIM_COMPARE_OP

Tensor isnan(const Tensor& x) { return ne(x, x); }

Tensor isfinite(const Tensor& x) {
  static const ops::UnaryKernel kernel("isfinite");
  ops::check_defined("isfinite", x);
  return is_floating(x.dtype()) ? ops::predicate(kernel, x) : eq(x, x);
}

}  // namespace brim
