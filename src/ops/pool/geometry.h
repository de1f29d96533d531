// The sizes of one pooling, shared by max and average.
#pragma once

#include <brim/core/tensor.h>

#include "backend/options/geometry.h"

namespace brim::ops {

/// Checks x and the options and works out the sizes; names `op` in errors.
backend::PoolGeometry pool_geometry(const char* op, const Tensor& x, Pair kernel, Pair stride,
                                    Pair padding, Pair dilation, bool ceil_mode);

}  // namespace brim::ops
