// Chooses the kernel of a matrix product by its sizes and strides, as
// bench/micro/backend/gemm_bench.cpp measures them.
#include "backend/cpu/gemm/gemm.h"

#include "backend/cpu/gemm/gemm_kernels.h"

namespace brim::cpu {
namespace {

/// Dot tiles add up vectors at their end, which a long k outweighs, and read B again for every few
/// rows; copies of B pay off over many rows, with small tiles over a dozen.
bool dot_wins(int64_t m, int64_t n, int64_t k) {
  if (n <= 24 && 4 * n <= k) return true;
  if (has_small_tiles()) return m < 12 && 4 * m <= k;
  const bool b_stays_in_cache = m <= 48 || n * k <= int64_t{1} << 18;
  return 4 * m <= k && b_stays_in_cache;
}

/// Beside the broadcast kernel: copies pay off where an operand that is read again and again does
/// not stay in the L2 cache, or in the few sets of the L1 cache that rows of B fall into which are
/// whole pages, or quarters of one, apart. A's columns, read in place, are far apart if A is a
/// transpose. Small tiles read B again for every four rows of A, and by parts of cache lines.
bool packed_wins(int64_t m, int64_t n, int64_t k, bool a_transposed, int64_t row_bytes) {
  if (has_small_tiles()) {
    if (m >= 32 && row_bytes % 4096 == 0) return true;
    if (m >= 128 && n >= 512 && row_bytes % 1024 == 0) return true;
    if (a_transposed && n >= 64 && (m >= 256 || (m >= 128 && n >= 512))) return true;
  }
  return (a_transposed && n >= 256 && m * k >= int64_t{1} << 19) ||
         (m >= 256 && n * k >= int64_t{1} << 20) || (m >= 1024 && n * k >= int64_t{1} << 18);
}

}  // namespace

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
          int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (n == 1 && m > 1 && ldc == 1 && a.row == 1 && a.col != 1)  // c^T = b^T a^T: vectors along a
    return gemm_broadcast(1, m, k, Matrix<T>{b.data, 1, b.row}, Matrix<T>{a.data, a.col, 1},
                          accumulate, c, m);
  if (b.col == 1 || n == 1) {
    if (b.row == 1 && a.col == 1 && n == 1) return gemm_dot(m, n, k, a, b, accumulate, c, ldc);
    const int64_t row_bytes = b.row * static_cast<int64_t>(sizeof(T));
    if (!packed_wins(m, n, k, a.col != 1, row_bytes))
      return gemm_broadcast(m, n, k, a, b, accumulate, c, ldc);
  } else if (b.row == 1 && a.col == 1 && dot_wins(m, n, k)) {
    return gemm_dot(m, n, k, a, b, accumulate, c, ldc);
  }
  gemm_packed(m, n, k, a, b, accumulate, c, ldc);
}

template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, bool, float*, int64_t);
template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, bool, double*,
                   int64_t);

}  // namespace brim::cpu
