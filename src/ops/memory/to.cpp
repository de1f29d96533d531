// to and contiguous: this tensor if nothing has to change, else a copy on that device, of that
// dtype or in that layout
#include "autograd/node.h"
#include "core/runtime.h"
#include "ops/elementwise.h"
#include "ops/memory/copy.h"

namespace brim {

Tensor Tensor::to(Device target) const {
  ops::check_defined("to", *this);
  return target == device() ? *this : copy_to(target);
}

Tensor Tensor::to(DType target) const {
  ops::check_defined("to", *this);
  if (target == dtype()) return *this;
  Tensor y = ops::empty_result(*this, target);
  ops::copy_elements(*this, y);
  return autograd::with_grad(
      "to", y, {*this}, [from = dtype()](autograd::GradCall& g) { g.set(0, g.dy().to(from)); });
}

Tensor Tensor::to(MemoryFormat format) const {
  ops::check_defined("to", *this);
  if (is_contiguous(format)) return *this;
  Tensor y = empty(shape(), dtype(), device());
  if (format != MemoryFormat::nchw) y = y.alias(shape(), strides_of(shape(), format), 0);
  ops::copy_elements(*this, y);
  return autograd::with_grad("to", y, {*this}, [](autograd::GradCall& g) { g.set(0, g.dy()); });
}

Tensor Tensor::contiguous() const { return to(MemoryFormat::nchw); }

}  // namespace brim
