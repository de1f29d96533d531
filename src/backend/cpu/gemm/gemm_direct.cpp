// Two kernels that read their operands in place: `broadcast` (B's rows are contiguous: vectors run
// along n, A's elements are broadcast) and `dot` (A's rows and B's columns are contiguous: vectors
// run along k).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/gemm_direct.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backend/cpu/gemm/gemm-inl.h"
#include "backend/cpu/gemm/gemm_kernels.h"
#include "backend/cpu/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// Of k per pass: a panel of B stays in the L1/L2 cache.
template <class T>
constexpr int64_t kDepth = kSmallTiles ? kPassBytes / static_cast<int64_t>(sizeof(T)) : 256;

/// Columns [begin, end) of C; B's rows are contiguous.
template <class T>
void broadcast_columns(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<T> a, Matrix<T> b,
                       bool accumulate, T* c, int64_t ldc) {
  const int64_t width = kVecs * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (int64_t p = 0; p < k || p == 0; p += kDepth<T>)
    for (int64_t j = begin; j < end; j += width)
      broadcast_panel<T>(m, std::min(kDepth<T>, k - p), a.data + p * a.col, kRows * a.row, a.row,
                         a.col, b.data + p * b.row + j, b.row, accumulate || p > 0, c + j, ldc,
                         std::min(width, end - j));
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

bool small_tiles() { return kSmallTiles; }

void broadcast_f32(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<float> a,
                   Matrix<float> b, bool add, float* c, int64_t ldc) {
  broadcast_columns<float>(begin, end, m, k, a, b, add, c, ldc);
}
void broadcast_f64(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<double> a,
                   Matrix<double> b, bool add, double* c, int64_t ldc) {
  broadcast_columns<double>(begin, end, m, k, a, b, add, c, ldc);
}
void dot_f32(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<float> a, Matrix<float> b,
             bool add, float* c, int64_t ldc) {
  dot_columns<float>(begin, end, m, k, a, b, add, c, ldc);
}
void dot_f64(int64_t begin, int64_t end, int64_t m, int64_t k, Matrix<double> a, Matrix<double> b,
             bool add, double* c, int64_t ldc) {
  dot_columns<double>(begin, end, m, k, a, b, add, c, ldc);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {
namespace {

HWY_EXPORT(small_tiles);
HWY_EXPORT(broadcast_f32);
HWY_EXPORT(broadcast_f64);
HWY_EXPORT(dot_f32);
HWY_EXPORT(dot_f64);

constexpr int64_t kParallelWork = int64_t{1} << 18;  // multiply-adds per part
// Parts are whole blocks of the longer side, in columns or rows. Multiples of the tiles' sides.
constexpr int64_t kBroadcastColumns = 32, kDotColumns = 48, kBlockRows = 24;

/// Runs `kernel` over blocks of columns or rows, in parallel where the work is worth it.
template <class T, class Kernel>
void over_blocks(Kernel kernel, int64_t columns, int64_t m, int64_t n, int64_t k, Matrix<T> a,
                 Matrix<T> b, bool accumulate, T* c, int64_t ldc) {
  const bool by_rows = m > n;
  const int64_t length = by_rows ? m : n, other = by_rows ? n : m;
  const int64_t block = by_rows ? kBlockRows : columns;
  const int64_t grain =
      std::max<int64_t>(1, kParallelWork / std::max<int64_t>(1, other * k * block));
  parallel_for((length + block - 1) / block, grain, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * block, to = std::min(length, end * block);
    if (by_rows)
      kernel(0, n, to - from, k, {a.data + from * a.row, a.row, a.col}, b, accumulate,
             c + from * ldc, ldc);
    else
      kernel(from, to, m, k, a, b, accumulate, c, ldc);
  });
}

}  // namespace

bool has_small_tiles() {
  static const bool small = HWY_DYNAMIC_DISPATCH(small_tiles)();
  return small;
}

template <class T>
void gemm_broadcast(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate,
                    T* c, int64_t ldc) {
  if constexpr (sizeof(T) == 4)
    over_blocks(HWY_DYNAMIC_DISPATCH(broadcast_f32), kBroadcastColumns, m, n, k, a, b, accumulate,
                c, ldc);
  else
    over_blocks(HWY_DYNAMIC_DISPATCH(broadcast_f64), kBroadcastColumns, m, n, k, a, b, accumulate,
                c, ldc);
}

template <class T>
void gemm_dot(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
              int64_t ldc) {
  if constexpr (sizeof(T) == 4)
    over_blocks(HWY_DYNAMIC_DISPATCH(dot_f32), kDotColumns, m, n, k, a, b, accumulate, c, ldc);
  else
    over_blocks(HWY_DYNAMIC_DISPATCH(dot_f64), kDotColumns, m, n, k, a, b, accumulate, c, ldc);
}

template void gemm_broadcast(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, bool, float*,
                             int64_t);
template void gemm_broadcast(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, bool,
                             double*, int64_t);
template void gemm_dot(int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, bool, float*,
                       int64_t);
template void gemm_dot(int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, bool, double*,
                       int64_t);

}  // namespace brim::cpu
#endif
