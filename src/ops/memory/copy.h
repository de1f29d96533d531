// Kernels that move or set elements without arithmetic; shared by memory/ and create/.
#pragma once

#include "backend/kernel.h"

namespace brim::ops {

/// y[...] = cast(x[...]), both on the kernel's device, same shape, any strides.
void copy_elements(const Tensor& x, Tensor& y);
/// y = value everywhere.
void fill_elements(Tensor& y, double value);

}  // namespace brim::ops
