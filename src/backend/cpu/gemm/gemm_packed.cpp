// The packed matrix product. For each block of k and each block of A's rows, A is copied into
// tiles that stay in the L2 cache; then one panel of B after the other is copied and multiplied
// with all of them. C is cut into a grid of parts, one per thread; the blocks of k depend on
// nothing, so the split changes no sum.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/gemm_packed.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "backend/cpu/gemm/gemm-inl.h"
#include "backend/cpu/gemm/gemm_buffer.h"
#include "backend/cpu/gemm/gemm_grid.h"
#include "backend/cpu/gemm/gemm_kernels.h"
#include "backend/cpu/gemm/gemm_pack-inl.h"
#include "backend/cpu/runtime/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kDepthBytes = kSmallTiles ? kPassBytes : 1536;  // of k in a block
constexpr int64_t kBlockRows = 1024 / kRows * kRows;              // of A in its buffer

/// Whether A is copied. Where its rows are contiguous and pass by few panels of B, they are read in
/// place.
template <class T>
bool packs_a(Matrix<T> a, int64_t n) {
  return a.col != 1 || n > 4 * kVecs * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

/// One part, in one thread.
template <class T>
void packed_part(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
                 int64_t ldc, bool copy_a) {
  constexpr int64_t kDepth = kDepthBytes / static_cast<int64_t>(sizeof(T));
  constexpr int64_t kWidth = kVecs * static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  static_assert(kDepthBytes * (kBlockRows + kWidth) <= GemmBuffer::kBytes);
  const GemmBuffer buffer;
  T* panel = reinterpret_cast<T*>(buffer.data());
  T* tiles = panel + kDepth * kWidth;
  const int64_t width = kVecs * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t blocks = (m + kBlockRows - 1) / kBlockRows;
  const int64_t step = ((m + blocks - 1) / blocks + kRows - 1) / kRows * kRows;
  for (int64_t p = 0; p < k || p == 0; p += kDepth) {
    const int64_t depth = std::min(kDepth, k - p);
    for (int64_t i = 0; i < m; i += step) {
      const int64_t rows = std::min(step, m - i);
      const Matrix<T> block{a.data + i * a.row + p * a.col, a.row, a.col};
      if (copy_a) pack_a(rows, depth, block, tiles);
      for (int64_t j = 0; j < n; j += width) {
        const int64_t columns = std::min(width, n - j);
        pack_b(depth, columns, {b.data + p * b.row + j * b.col, b.row, b.col}, panel, kWidth);
        T* to = c + i * ldc + j;
        if (copy_a)
          broadcast_panel<T>(rows, depth, tiles, kRows * depth, 1, kRows, panel, kWidth,
                             accumulate || p > 0, to, ldc, columns);
        else
          broadcast_panel<T>(rows, depth, block.data, kRows * a.row, a.row, a.col, panel, kWidth,
                             accumulate || p > 0, to, ldc, columns);
      }
    }
  }
}

template <class T>
void packed(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate, T* c,
            int64_t ldc) {
  constexpr int64_t kWork = int64_t{1} << 19;  // multiply-adds per thread
  const int64_t width = kVecs * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const bool copy_a = packs_a(a, n);
  const int64_t threads =
      in_parallel_loop() ? 1 : std::min<int64_t>(num_threads(), GemmBuffer::kCount);
  const int64_t max_parts =
      std::clamp<int64_t>(m * n * std::max<int64_t>(k, 1) / kWork, 1, threads);
  const GemmGrid grid = cut_gemm(m, n, max_parts, kRows, width, copy_a);
  for_each_part(grid, m, n, kRows, width, [&](int64_t i, int64_t rows, int64_t j, int64_t columns) {
    packed_part<T>(rows, columns, k, {a.data + i * a.row, a.row, a.col},
                   {b.data + j * b.col, b.row, b.col}, accumulate, c + i * ldc + j, ldc, copy_a);
  });
}

void packed_f32(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, bool add,
                float* c, int64_t ldc) {
  packed(m, n, k, a, b, add, c, ldc);
}
void packed_f64(int64_t m, int64_t n, int64_t k, Matrix<double> a, Matrix<double> b, bool add,
                double* c, int64_t ldc) {
  packed(m, n, k, a, b, add, c, ldc);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(packed_f32);
HWY_EXPORT(packed_f64);

template <>
void gemm_packed(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, bool accumulate,
                 float* c, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(packed_f32)(m, n, k, a, b, accumulate, c, ldc);
}

template <>
void gemm_packed(int64_t m, int64_t n, int64_t k, Matrix<double> a, Matrix<double> b,
                 bool accumulate, double* c, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(packed_f64)(m, n, k, a, b, accumulate, c, ldc);
}

}  // namespace brim::cpu
#endif
