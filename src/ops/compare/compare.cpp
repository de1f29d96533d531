// eq, ne, lt, le, gt, ge: comparisons of two tensors, and of a tensor with a number
#include <brim/ops/compare.h>

#include <cmath>

#include "ops/autocast.h"
#include "ops/elementwise.h"

namespace brim {

namespace {

Tensor with_number(const ops::UnaryKernel& kernel, const char* op, const Tensor& x, double value) {
  ops::check_defined(op, x);
  if (x.dtype() == DType::i64 && std::isfinite(value)) ops::check_whole(op, value);
  return ops::predicate(kernel, x, {.a = value});
}

}  // namespace

#define BRIM_COMPARE_OP(op)                              \
  Tensor op(const Tensor& a, const Tensor& b) {          \
    static const ops::BinaryKernel kernel(#op);          \
    if (ops::autocast_mixes(a, b)) [[unlikely]]          \
      return op(a.to(f32), b.to(f32));                   \
    return ops::compare(kernel, #op, a, b);              \
  }                                                      \
  Tensor op(const Tensor& x, double value) {             \
    static const ops::UnaryKernel kernel(#op "_scalar"); \
    return with_number(kernel, #op, x, value);           \
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
