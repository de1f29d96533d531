// Matrix products by NVIDIA's library. Libraries are opened at run time: without one, brim's own
// kernels compute.
#pragma once

#include <cstdint>

#include <brim/core/dtype.h>

#include "core/context.h"

namespace brim::cuda {

/// A matrix with rows, or where `transposed` columns, that are contiguous; `leading` elements from
/// one to the next. `stack`: elements from one matrix of a stack to the next.
struct BlasMatrix {
  const void* data;
  int64_t leading, stack;
  bool transposed;
};

/// y = a b (+ bias of each column): a: (m, k), b: (k, n), y: (m, n), all sizes 1 or more, in a
/// stack of `count`. y is not transposed. Floats of 32 bits are multiplied as such, not as TF32;
/// those of 16 bits are added in f32.
struct BlasProduct {
  DType dtype;  // f32, f64, f16 or bf16
  int64_t m, n, k, count;
  BlasMatrix a, b, y;
  const void* bias = nullptr;  // contiguous, aligned to 16 bytes, not for f64; or null
};

/// Queues the product. False, with nothing queued, where cuBLASLt is not there or has no algorithm
/// for it. Throws DeviceError if the library fails.
bool blas_product(const Context& context, const BlasProduct& product);

}  // namespace brim::cuda
