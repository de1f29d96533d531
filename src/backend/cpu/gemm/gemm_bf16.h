// Matrix products of bf16 by instructions made for them (AVX-512 BF16), about twice as fast as
// those of f32. Operands are exact, each instruction adds two products to a sum in f32, and the
// result is rounded to bf16 once, to nearest even. Denormal numbers, operands and sums, count as
// zero.
#pragma once

#include <cstdint>

#include <brim/core/dtype.h>

#include "backend/cpu/gemm/gemm.h"

namespace brim::cpu {

/// Whether this CPU has them, and BRIM_CPU_ISA does not choose an instruction set without.
bool multiplies_bf16();

/// What becomes of a sum before it is rounded.
struct Bf16Finish {
  const float* bias = nullptr;      ///< of a column, if not null, is added
  const float* row_bias = nullptr;  ///< the same of a row
  bool relu = false;                ///< NaN stays
  // For one sum by several calls, with `sums` for all of them:
  bool begun = false;  ///< they hold what earlier calls summed
  bool more = false;   ///< later calls go on; c is not written
};

/// Of k, summed in registers.
constexpr int64_t kBf16Depth = 1024;

/// Floats that gemm_bf16() needs of `sums`, which may be null for none.
constexpr int64_t bf16_sums(int64_t m, int64_t n, int64_t k) { return k > kBf16Depth ? m * n : 0; }

/// c (m x n, rows `ldc` apart) = a (m x k) b (k x n), for any strides of a and b, where
/// multiplies_bf16(). The result does not depend on the number of threads.
void gemm_bf16(int64_t m, int64_t n, int64_t k, Matrix<BFloat16> a, Matrix<BFloat16> b, BFloat16* c,
               int64_t ldc, float* sums, const Bf16Finish& finish = {});

}  // namespace brim::cpu
