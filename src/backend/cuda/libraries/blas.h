// Matrix products by NVIDIA's library. Libraries are opened at run time: without one, brim's own
// kernels compute.
#pragma once

#include <cstdint>
#include <string>

#include <brim/core/dtype.h>

#include "backend/cuda/libraries/work.h"
#include "core/context.h"

namespace brim::cuda {

/// A matrix with rows, or where `transposed` columns, that are contiguous; `leading` elements from
/// one to the next. `stack`: elements from one matrix of a stack to the next.
struct BlasMatrix {
  const void* data;
  int64_t leading, stack;
  bool transposed;
};

/// y = a b (+ bias of each column, then a ReLU): a: (m, k), b: (k, n), y: (m, n), all sizes 1 or
/// more, in a stack of `count`. y is not transposed. Floats of 16 bits are added in f32.
struct BlasProduct {
  DType dtype;  // f32, f64, f16 or bf16
  bool tf32;    // floats of 32 bits may be multiplied as TF32
  int64_t m, n, k, count;
  BlasMatrix a, b, y;
  const void* bias = nullptr;  // contiguous, not for f64; or null
  bool relu = false;           // only with a bias
};

/// What of a product was queued.
enum class BlasDone { nothing, without_relu, all };

/// Queues the product. `nothing` where cuBLASLt is not there or has no algorithm for it, or `own`,
/// which queues the product by brim's own kernels (may be null), was measured to be faster;
/// `without_relu` where no algorithm's ReLU lets NaN through. Throws DeviceError if the library
/// fails.
BlasDone blas_product(const Context& context, const BlasProduct& product, const Work& own);

/// Why there is no cuBLASLt, and what to install; empty if there is.
std::string blas_problem();
/// "cuBLASLt 130100", or "no cuBLASLt".
std::string blas_version();

}  // namespace brim::cuda
