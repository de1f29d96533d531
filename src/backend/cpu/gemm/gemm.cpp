// Chooses the kernel of a matrix product by its sizes and strides, as
// bench/micro/backend/gemm_bench.cpp measures them.
#include "backend/cpu/gemm/gemm.h"

#include "backend/cpu/gemm/gemm_kernels.h"

namespace brim::cpu {
namespace {

/// Dot tiles add up vectors at their end, which a long k outweighs, and read B again for every few
/// rows; copies of B pay off over many rows.
bool dot_wins(int64_t m, int64_t n, int64_t k) {
  const bool b_stays_in_cache = m <= 48 || n * k <= int64_t{1} << 18;
  return (4 * m <= k && b_stays_in_cache) || (n <= 24 && 4 * n <= k);
}

/// Beside the broadcast kernel: copies pay off where an operand that is read again and again does
/// not stay in the L2 cache. A's columns, read in place, are far apart if A is a transpose.
bool packed_wins(int64_t m, int64_t n, int64_t k, bool a_transposed) {
  return (a_transposed && n >= 256 && m * k >= int64_t{1} << 19) ||
         (m >= 256 && n * k >= int64_t{1} << 20) || (m >= 1024 && n * k >= int64_t{1} << 18);
}

}  // namespace

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
          int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (b.col == 1 || n == 1) {
    if (b.row == 1 && a.col == 1 && n == 1) return gemm_dot(m, n, k, a, b, accumulate, c, ldc);
    if (!packed_wins(m, n, k, a.col != 1)) return gemm_broadcast(m, n, k, a, b, accumulate, c, ldc);
  } else if (b.row == 1 && a.col == 1 && dot_wins(m, n, k)) {
    return gemm_dot(m, n, k, a, b, accumulate, c, ldc);
  }
  gemm_packed(m, n, k, a, b, accumulate, c, ldc);
}

template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, bool, float*, int64_t);
template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, bool, double*,
                   int64_t);

}  // namespace brim::cpu
