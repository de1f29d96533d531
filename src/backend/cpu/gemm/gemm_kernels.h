// The kernels among which gemm chooses. All compute c = a b (+ c) for m, n > 0, in parallel where
// the work is worth it, allocate nothing and give results that do not depend on the threads.
#pragma once

#include "backend/cpu/gemm/gemm.h"

namespace brim::cpu {

/// Whether the CPU's register tiles are small (kSmallTiles).
bool has_small_tiles();

/// For B with contiguous rows (b.col == 1 or n == 1); reads A and B in place.
template <class T>
void gemm_broadcast(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate,
                    T* c, int64_t ldc);

/// For A with contiguous rows and B with contiguous columns; reads both in place.
template <class T>
void gemm_dot(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
              int64_t ldc);

/// For any strides; copies panels of A and B into a GemmBuffer.
template <class T>
void gemm_packed(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
                 int64_t ldc);

}  // namespace brim::cpu
