// What ops with int8 weights share.
#pragma once

#include <brim/ops/conv.h>
#include <brim/ops/int8.h>

#include "backend/options/geometry.h"
#include "backend/options/int8.h"

namespace brim::ops {

/// Devices, dtypes, the bias's shape, and that no gradient is lost. `packed`: of the weight, which
/// has this shape, and `rank` axes.
void check_int8_operands(const char* op, const Tensor& q, const Shape& weight, const Tensor& packed,
                         const Tensor& bias, int rank);

/// Throws ValueError unless a weight's scales and correction (or undefined) are finite and of so
/// many outputs.
void check_int8_scales(const Tensor& scales, const Tensor& correction, int64_t outputs,
                       Device device);
/// Throws ShapeError, ValueError for a shape of which there are no weights in integers.
void check_int8_shape(const Shape& shape);

/// Throws ValueError for parameters that are none.
backend::Int8Call int8_call(QuantParams input, const Int8Output& output);

/// Of a convolution of q; throws where it is none, or not implemented.
backend::ConvGeometry int8_geometry(const char* op, const Tensor& q, const Shape& weight,
                                    const Conv2dOptions& options);

/// Inputs (rows, in) and outputs of a linear layer; `flat`: y as (rows, out).
struct Int8LinearRows {
  Tensor x, y, flat;
};
Int8LinearRows int8_linear_rows(const char* op, const Tensor& q, const Shape& weight,
                                const Int8Output& output);

/// Of the outputs of a layer.
inline DType dtype_of_output(const Int8Output& output) {
  return output.quantized ? DType::u8 : DType::f32;
}

}  // namespace brim::ops
