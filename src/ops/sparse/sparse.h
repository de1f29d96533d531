// What ops with sparse weights share.
#pragma once

#include <brim/ops/sparse.h>

#include "backend/kernel.h"

namespace brim::ops {

/// Devices, dtypes, the bias's shape, and that no gradient is lost; `rank`: of the weight.
void check_sparse_operands(const char* op, const Tensor& x, const SparseWeight& weight,
                           const Tensor& bias, int rank);

}  // namespace brim::ops
