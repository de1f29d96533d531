// Matrix product on the CPU: C = A B (+ C), any strides for A and B, so that transposed views need
// no copies beforehand. Allocates nothing.
#pragma once

#include <cstdint>

namespace brim::cpu {

/// A strided matrix; element (i, j) is at data[i * row + j * col].
template <class T>
struct Matrix {
  const T* data;
  int64_t row, col;
};

/// c (m x n, rows `ldc` apart) = a (m x k) b (k x n), plus what c held if `accumulate`.
/// The result does not depend on the number of threads.
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
          int64_t ldc);

}  // namespace brim::cpu
