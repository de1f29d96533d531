// Two kernels, neither of which packs its operands: `broadcast` (B's rows are contiguous: vectors
// run along n, A's elements are broadcast) and `dot` (A's rows and B's columns are contiguous:
// vectors run along k). For what fits neither, `packed` copies panels of B into the form of the
// first, each thread those that it needs.
#include "backend/cpu/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backend/cpu/gemm-inl.h"
#include "backend/cpu/parallel.h"
#include "core/check.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kDepth = 256;  // of k per pass: a panel of B stays in the L1/L2 cache

template <class T, int V>
void broadcast_rows(int64_t m, int64_t k, Matrix<T> a, const T* b, int64_t ldb, bool accumulate,
                    T* c, int64_t ldc, int64_t columns) {
  int64_t i = 0;
  for (; i + kRows <= m; i += kRows)
    broadcast_tile<T, kRows, V>(k, a.data + i * a.row, a.row, a.col, b, ldb, accumulate,
                                c + i * ldc, ldc, columns);
  const T* rest = a.data + i * a.row;
  T* to = c + i * ldc;
  switch (m - i) {
    case 5:
      return broadcast_tile<T, 5, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    case 4:
      return broadcast_tile<T, 4, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    case 3:
      return broadcast_tile<T, 3, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    case 2:
      return broadcast_tile<T, 2, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    case 1:
      return broadcast_tile<T, 1, V>(k, rest, a.row, a.col, b, ldb, accumulate, to, ldc, columns);
    default:
      return;
  }
}

/// Columns [begin, end) of C; B's rows are contiguous.
template <class T>
void broadcast_columns(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<T> a, Matrix<T> b,
                       bool accumulate, T* c, int64_t ldc) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t p = 0; p < k || p == 0; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    const Matrix<T> part{a.data + p * a.col, a.row, a.col};
    const bool add = accumulate || p > 0;
    for (int64_t j = begin; j < end; j += kVecs * lanes) {
      const int64_t columns = std::min(kVecs * lanes, end - j);
      const T* bj = b.data + p * b.row + j;
      switch ((columns + lanes - 1) / lanes) {
        case 4:
          broadcast_rows<T, 4>(m, depth, part, bj, b.row, add, c + j, ldc, columns);
          break;
        case 3:
          broadcast_rows<T, 3>(m, depth, part, bj, b.row, add, c + j, ldc, columns);
          break;
        case 2:
          broadcast_rows<T, 2>(m, depth, part, bj, b.row, add, c + j, ldc, columns);
          break;
        default:
          broadcast_rows<T, 1>(m, depth, part, bj, b.row, add, c + j, ldc, columns);
          break;
      }
    }
  }
}

/// The same for any strides of B.
template <class T>
void packed_columns(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<T> a, Matrix<T> b,
                    bool accumulate, T* c, int64_t ldc) {
  constexpr int64_t kWidth = kVecs * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  HWY_ALIGN T panel[kDepth * kWidth];
  for (int64_t j = begin; j < end; j += kWidth) {
    const int64_t columns = std::min(kWidth, end - j);
    for (int64_t p = 0; p < k || p == 0; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      for (int64_t q = 0; q < depth; ++q)
        for (int64_t i = 0; i < columns; ++i)
          panel[q * kWidth + i] = b.data[(p + q) * b.row + (j + i) * b.col];
      broadcast_columns<T>(0, columns, m, depth, {a.data + p * a.col, a.row, a.col},
                           {panel, kWidth, 1}, accumulate || p > 0, c + j, ldc);
    }
  }
}

/// Columns [begin, end) of C; A's rows and B's columns are contiguous.
template <class T>
void dot_columns(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<T> a, Matrix<T> b,
                 bool accumulate, T* c, int64_t ldc) {
  const auto rows = [&]<int R>(std::integral_constant<int, R>, int64_t i) {
    dot_row_block<R>(begin, end, k, a.data + i * a.row, a.row, b.data, b.col,
                     [&](int64_t j, auto columns, const T* sums) {
                       for (int r = 0; r < R; ++r)
                         for (int s = 0; s < columns; ++s) {
                           T& to = c[(i + r) * ldc + j + s];
                           const T sum = sums[r * columns + s];
                           to = accumulate ? to + sum : sum;
                         }
                     });
  };
  int64_t i = 0;
  for (; i + kDotRows <= m; i += kDotRows) rows(std::integral_constant<int, kDotRows>(), i);
  for (; i < m; ++i) rows(std::integral_constant<int, 1>(), i);
}

void broadcast_f32(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<float> a,
                   Matrix<float> b, bool add, float* c, int64_t ldc) {
  broadcast_columns<float>(begin, end, m, k, a, b, add, c, ldc);
}
void broadcast_f64(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<double> a,
                   Matrix<double> b, bool add, double* c, int64_t ldc) {
  broadcast_columns<double>(begin, end, m, k, a, b, add, c, ldc);
}
void packed_f32(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<float> a, Matrix<float> b,
                bool add, float* c, int64_t ldc) {
  packed_columns<float>(begin, end, m, k, a, b, add, c, ldc);
}
void dot_f32(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<float> a, Matrix<float> b,
             bool add, float* c, int64_t ldc) {
  dot_columns<float>(begin, end, m, k, a, b, add, c, ldc);
}
void packed_f64(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<double> a,
                Matrix<double> b, bool add, double* c, int64_t ldc) {
  packed_columns<double>(begin, end, m, k, a, b, add, c, ldc);
}
void dot_f64(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<double> a, Matrix<double> b,
             bool add, double* c, int64_t ldc) {
  dot_columns<double>(begin, end, m, k, a, b, add, c, ldc);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if BRIM_HAVE_DNNL
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#endif

namespace brim::cpu {
namespace {

HWY_EXPORT(broadcast_f32);
HWY_EXPORT(broadcast_f64);
HWY_EXPORT(packed_f32);
HWY_EXPORT(packed_f64);
HWY_EXPORT(dot_f32);
HWY_EXPORT(dot_f64);

constexpr int64_t kOneDnnWork = int64_t{1} << 20;    // multiply-adds from which oneDNN wins
constexpr int64_t kParallelWork = int64_t{1} << 20;  // multiply-adds per thread
constexpr int64_t kBlock = 64;                       // threads get whole blocks of rows or columns

int64_t ceil_blocks(int64_t length) { return (length + kBlock - 1) / kBlock; }

template <class T>
auto broadcast_kernel() {
  if constexpr (sizeof(T) == 4)
    return HWY_DYNAMIC_DISPATCH(broadcast_f32);
  else
    return HWY_DYNAMIC_DISPATCH(broadcast_f64);
}
template <class T>
auto packed_kernel() {
  if constexpr (sizeof(T) == 4)
    return HWY_DYNAMIC_DISPATCH(packed_f32);
  else
    return HWY_DYNAMIC_DISPATCH(packed_f64);
}
template <class T>
auto dot_kernel() {
  if constexpr (sizeof(T) == 4)
    return HWY_DYNAMIC_DISPATCH(dot_f32);
  else
    return HWY_DYNAMIC_DISPATCH(dot_f64);
}

/// Runs `kernel` over blocks of columns, in parallel where the work is worth it.
template <class T, class Kernel>
void over_columns(Kernel kernel, int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b,
                  bool accumulate, T* c, int64_t ldc) {
  const int64_t blocks = ceil_blocks(n);
  const int64_t grain = std::max<int64_t>(1, kParallelWork / std::max<int64_t>(1, m * k * kBlock));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    kernel(begin * kBlock, std::min(n, end * kBlock), m, k, a, b, accumulate, c, ldc);
  });
}

#if BRIM_HAVE_DNNL
/// oneDNN's sgemm takes row-major matrices, or their transposes. It runs in one thread per block of
/// rows or columns of ours: its own threads would spin against ours.
bool dnnl_gemm(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, bool accumulate,
               float* c, int64_t ldc) {
  if ((a.col != 1 && a.row != 1) || (b.col != 1 && b.row != 1)) return false;
  const bool ta = a.col != 1, tb = b.col != 1;
  const int64_t lda = ta ? a.col : a.row, ldb = tb ? b.col : b.row;
  if (lda < (ta ? m : k) || ldb < (tb ? k : n)) return false;  // broadcast views
  const bool by_rows = m >= n;
  const int64_t length = by_rows ? m : n, blocks = ceil_blocks(length);
  const int64_t grain =
      std::max<int64_t>(1, kParallelWork / std::max<int64_t>(1, m * n * k / blocks));
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * kBlock, count = std::min(length, end * kBlock) - from;
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    const dnnl_status_t status = dnnl_sgemm(
        ta ? 'T' : 'N', tb ? 'T' : 'N', by_rows ? count : m, by_rows ? n : count, k, 1.0f,
        a.data + (by_rows ? from * a.row : 0), lda, b.data + (by_rows ? 0 : from * b.col), ldb,
        accumulate ? 1.0f : 0.0f, c + (by_rows ? from * ldc : from), ldc);
    omp_set_num_threads(threads);
    BRIM_CHECK(status == dnnl_success, Error,
               "[matmul] oneDNN failed with status {} on ({}, {}) x ({}, {}); report it as a bug",
               static_cast<int>(status), m, k, k, n);
  });
  return true;
}
#endif

}  // namespace

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
          int64_t ldc) {
  if (m == 0 || n == 0) return;
#if BRIM_HAVE_DNNL
  if constexpr (sizeof(T) == 4)
    if (m >= 16 && n >= 16 && m * n * k >= kOneDnnWork &&
        dnnl_gemm(m, n, k, a, b, accumulate, c, ldc))
      return;
#endif
  if (b.row == 1 && a.col == 1 && (b.col != 1 || n == 1))
    return over_columns(dot_kernel<T>(), m, n, k, a, b, accumulate, c, ldc);
  if (b.col == 1 || n == 1)
    return over_columns(broadcast_kernel<T>(), m, n, k, a, b, accumulate, c, ldc);
  over_columns(packed_kernel<T>(), m, n, k, a, b, accumulate, c, ldc);
}

template void gemm(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, bool, float*, int64_t);
template void gemm(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, bool, double*,
                   int64_t);

}  // namespace brim::cpu
#endif
