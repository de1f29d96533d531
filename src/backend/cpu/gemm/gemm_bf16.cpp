// Few rows or columns are multiplied by dot tiles, which read both operands in place. The rest goes
// as in gemm_packed.cpp: for each block of k and each block of A's rows, one panel of B after the
// other is copied, so that it stays in the L2 cache, and multiplied with all of them; A is copied
// too where its rows are not contiguous. Sums that wait for another block of k are in f32.
#include "backend/cpu/gemm/gemm_bf16.h"

#define HWY_WANT_AVX3_DL 1  // which CPUs with BF16 have, beside the sets of all files
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/gemm/gemm_bf16.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "backend/cpu/gemm/gemm_bf16_pack-inl.h"
#include "backend/cpu/gemm/gemm_bf16_tiles-inl.h"
#include "backend/cpu/gemm/gemm_buffer.h"
#include "backend/cpu/gemm/gemm_grid.h"

namespace brim::cpu {

using GemmBf16 = void (*)(int64_t m, int64_t n, int64_t k, Matrix<BFloat16> a, Matrix<BFloat16> b,
                          BFloat16* c, int64_t ldc, float* sums, const Bf16Finish& finish);

}  // namespace brim::cpu

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL

constexpr int64_t kBlockRows = 768 / kRows * kRows;  // of A in its buffer

/// One part of C, in one thread.
void part_bf16(int64_t m, int64_t n, int64_t k, const Bits& a, const Bits& b, Target to) {
  static_assert(kBf16Depth * 2 * (kBlockRows + kWidth) <= GemmBuffer::kBytes);
  const GemmBuffer buffer;
  uint32_t* panel = reinterpret_cast<uint32_t*>(buffer.data());
  uint32_t* tiles = panel + kBf16Depth / 2 * kWidth;
  // One tile reads each panel once. In place that is slow where rows lie far apart and come from
  // memory: the CPU does not foresee them.
  constexpr int64_t kCached = int64_t{128} << 10;  // numbers
  const bool reads_in_place = m <= kRows && b.col == 1 && (b.row <= kWidth || k * n <= kCached);
  const int64_t blocks = (m + kBlockRows - 1) / kBlockRows;
  const int64_t step = ((m + blocks - 1) / blocks + kRows - 1) / kRows * kRows;
  for (int64_t p = 0; p < k || p == 0; p += kBf16Depth) {
    const int64_t depth = std::min(kBf16Depth, k - p), pairs = (depth + 1) / 2;
    to.first = p == 0 && !to.finish.begun;
    to.last = p + depth == k && !to.finish.more;
    for (int64_t i = 0; i < m; i += step) {
      const int64_t rows = std::min(step, m - i);
      const Bits block = part_of(a, i, p);
      const bool in_place = a.col == 1 && depth % 2 == 0;
      if (!in_place) pack_pairs_a(rows, depth, block, tiles);
      TileRows tile_rows = in_place ? TileRows::in_place(block) : TileRows::packed(tiles, pairs);
      for (int64_t j = 0; j < n; j += kWidth) {
        const int64_t columns = std::min(kWidth, n - j);
        const Bits from = part_of(b, p, j);
        tile_rows.ahead = in_place && j == 0 ? depth : 0;
        if (reads_in_place) {
          panel_bf16(rows, pairs, tile_rows, PanelInPlace{from.data, b.row, depth}, to.at(i, j),
                     columns);
          continue;
        }
        pack_pairs_b(depth, columns, from, panel, kWidth);
        panel_bf16(rows, pairs, tile_rows, PackedPanel{panel}, to.at(i, j), columns);
      }
    }
  }
}

Bits bits_of(const Matrix<BFloat16>& x) {
  static_assert(sizeof(BFloat16) == sizeof(uint16_t));
  return {reinterpret_cast<const uint16_t*>(x.data), x.row, x.col};
}

void packed_bf16(int64_t m, int64_t n, int64_t k, Matrix<BFloat16> a, Matrix<BFloat16> b,
                 BFloat16* c, int64_t ldc, float* sums, const Bf16Finish& finish) {
  constexpr int64_t kWork = int64_t{1} << 20;  // multiply-adds per thread
  const int64_t threads =
      in_parallel_loop() ? 1 : std::min<int64_t>(num_threads(), GemmBuffer::kCount);
  const int64_t max_parts =
      std::clamp<int64_t>(m * n * std::max<int64_t>(k, 1) / kWork, 1, threads);
  const Target to{c, ldc, sums, n, !finish.begun, !finish.more, finish};
  for_each_part(cut_gemm(m, n, max_parts, kRows, kWidth, true), m, n, kRows, kWidth,
                [&](int64_t i, int64_t rows, int64_t j, int64_t columns) {
                  part_bf16(rows, columns, k, part_of(bits_of(a), i, 0), part_of(bits_of(b), 0, j),
                            to.at(i, j));
                });
}

void dot_part_bf16(int64_t m, int64_t n, int64_t k, const Bits& a, const Bits& b,
                   const Target& to) {
  int64_t i = 0;
  for (; i + kDotRows <= m; i += kDotRows) {
    for (int64_t r = i + kDotRows; r < std::min(m, i + 2 * kDotRows); ++r)
      prefetch_row(a.data + r * a.row, k);
    dot_rows_bf16<kDotRows>(n, k, a.data + i * a.row, a.row, b.data, b.col, to.at(i, 0));
  }
  for (; i < m; ++i) dot_rows_bf16<1>(n, k, a.data + i * a.row, a.row, b.data, b.col, to.at(i, 0));
}

/// For A with contiguous rows and B with contiguous columns.
void dot_bf16(int64_t m, int64_t n, int64_t k, const Bits& a, const Bits& b, const Target& to) {
  constexpr int64_t kWork = int64_t{1} << 19;  // multiply-adds per part
  constexpr int64_t kUnit = 2 * kDotRows * kDotCols, kCacheBytes = int64_t{256} << 10;
  const bool by_rows = m > n;
  const int64_t length = by_rows ? m : n, other = by_rows ? n : m;
  const int64_t step = std::max<int64_t>(1, kCacheBytes / (2 * k * kUnit)) * kUnit;
  const int64_t grain = kWork / std::max<int64_t>(1, other * k * kUnit) + 1;
  parallel_for((length + kUnit - 1) / kUnit, grain, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(length, end * kUnit);
    for (int64_t from = begin * kUnit; from < last; from += step) {
      const int64_t count = std::min(step, last - from);
      if (by_rows)
        dot_part_bf16(count, n, k, part_of(a, from, 0), b, to.at(from, 0));
      else
        dot_part_bf16(m, count, k, a, part_of(b, 0, from), to.at(0, from));
    }
  });
}

/// As bench/micro/backend/gemm_bf16_bench.cpp measures: dot tiles add up vectors at their end,
/// which a long k outweighs; packed ones are wide, so that few columns leave most of them empty.
bool dot_wins_bf16(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kFew = 32;
  return (n <= kFew && 8 * n <= k) || (m <= kFew && 32 * m <= k);
}

void product_bf16(int64_t m, int64_t n, int64_t k, Matrix<BFloat16> a, Matrix<BFloat16> b,
                  BFloat16* c, int64_t ldc, float* sums, const Bf16Finish& finish) {
  if (n == 1 && m > 1 && ldc == 1 && !finish.bias && !finish.row_bias)  // c^T = b^T a^T
    return product_bf16(1, m, k, {b.data, 1, b.row}, {a.data, a.col, a.row}, c, m, sums, finish);
  if (a.col == 1 && b.row == 1 && dot_wins_bf16(m, n, k))
    return dot_bf16(m, n, k, bits_of(a), bits_of(b),
                    {c, ldc, sums, n, !finish.begun, !finish.more, finish});
  packed_bf16(m, n, k, a, b, c, ldc, sums, finish);
}

GemmBf16 kernel() { return &product_bf16; }
#else
GemmBf16 kernel() { return nullptr; }
#endif

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {
namespace {

HWY_EXPORT(kernel);

GemmBf16 chosen() {
#if HWY_ARCH_X86
  static const GemmBf16 gemm =
      __builtin_cpu_supports("avx512bf16") ? HWY_DYNAMIC_DISPATCH(kernel)() : nullptr;
  return gemm;
#else
  return nullptr;
#endif
}

}  // namespace

bool multiplies_bf16() { return chosen() != nullptr; }

void gemm_bf16(int64_t m, int64_t n, int64_t k, Matrix<BFloat16> a, Matrix<BFloat16> b, BFloat16* c,
               int64_t ldc, float* sums, const Bf16Finish& finish) {
  if (m > 0 && n > 0) chosen()(m, n, k, a, b, c, ldc, sums, finish);
}

}  // namespace brim::cpu
#endif
