// What ops with int8 weights share.
#pragma once

#include <brim/ops/int8.h>

namespace brim::ops {

/// Devices, dtypes, the bias's shape, and that no gradient is lost; `rank`: of the weight.
void check_int8_operands(const char* op, const Tensor& q, const Int8Weight& weight,
                         const Tensor& bias, int rank);

/// Of the outputs of a layer.
inline DType dtype_of_output(const Int8Output& output) {
  return output.quantized ? DType::u8 : DType::f32;
}

}  // namespace brim::ops
