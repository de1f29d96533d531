// logical_not, logical_and, logical_or, logical_xor: an element counts as true unless it is 0
#include <brim/ops/compare.h>

#include "ops/elementwise.h"

namespace brim {
namespace {

Tensor truth(const char* op, const Tensor& x) {
  ops::check_defined(op, x);
  return x.detach().to(bool_);
}

}  // namespace

Tensor logical_not(const Tensor& x) { return eq(x, 0); }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  static const ops::BinaryKernel kernel("logical_and");
  return ops::compare(kernel, "logical_and", truth("logical_and", a), truth("logical_and", b));
}

Tensor logical_or(const Tensor& a, const Tensor& b) {
  static const ops::BinaryKernel kernel("logical_or");
  return ops::compare(kernel, "logical_or", truth("logical_or", a), truth("logical_or", b));
}

Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return ne(truth("logical_xor", a), truth("logical_xor", b));
}

}  // namespace brim
