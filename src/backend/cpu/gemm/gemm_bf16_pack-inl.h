// Copies of strided bf16 matrices for the tiles of gemm_bf16: two neighbours along k in 32 bits,
// the lower half the first of them. Behind an odd k there is a zero. Included once per instruction
// set, by a source that defines HWY_WANT_AVX3_DL first.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/gemm/gemm.h"

#if defined(BRIM_BACKEND_CPU_GEMM_BF16_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_GEMM_BF16_PACK_INL_H
#undef BRIM_BACKEND_CPU_GEMM_BF16_PACK_INL_H
#else
#define BRIM_BACKEND_CPU_GEMM_BF16_PACK_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/gemm/gemm_bf16_tiles-inl.h"
#include "backend/cpu/gemm/gemm_pack-inl.h"

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

inline uint32_t pair_of(const uint16_t* first, const uint16_t* second) {
  return *first | static_cast<uint32_t>(second ? *second : 0) << 16;
}

/// The pairs of a vector's numbers from two rows on; `second` may be null.
template <class D>
HWY_INLINE hn::Vec<D> pairs_of(D d, const uint16_t* first, const uint16_t* second) {
  const hn::Rebind<uint16_t, D> half;
  const auto low = hn::PromoteTo(d, hn::LoadU(half, first));
  if (!second) return low;
  return hn::Or(low, hn::ShiftLeft<16>(hn::PromoteTo(d, hn::LoadU(half, second))));
}

/// One row, whose numbers are contiguous, of a tile of kRows: pair q to to[q * kRows].
inline void pack_row(int64_t depth, const uint16_t* from, uint32_t* HWY_RESTRICT to) {
  for (int64_t q = 0; q < depth / 2; ++q) std::memcpy(to + q * kRows, from + 2 * q, 4);
  if (depth % 2 != 0) to[depth / 2 * kRows] = from[depth - 1];
}

/// Rows [0, rows) and columns [0, depth) of `a` as tiles of kRows: pair q of row i of tile t lies
/// at to[(t * pairs + q) * kRows + i]. The rest of the last tile is left as it is.
inline void pack_pairs_a(int64_t rows, int64_t depth, Bits a, uint32_t* HWY_RESTRICT to) {
  const int64_t pairs = (depth + 1) / 2;
  if (a.col == 1) {
    for (int64_t i = 0; i < rows; ++i)
      pack_row(depth, a.data + i * a.row, to + i / kRows * pairs * kRows + i % kRows);
    return;
  }
  // Vectors over the rows of a tile, which they read beyond, while such numbers follow.
  const hn::CappedTag<uint32_t, 8> d;
  const auto mask = hn::FirstN(d, kRows);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = a.row == 1 && lanes == 8 && rows >= 8 ? (rows - 8) / kRows + 1 : 0;
  constexpr int64_t kStep = 4, kLine = 6;  // pairs of columns and tiles that are read side by side
  for (int64_t first = 0; first < pairs; first += kStep)
    for (int64_t begin = 0; begin < whole; begin += kLine)
      for (int64_t q = first; q < std::min(pairs, first + kStep); ++q) {
        const uint16_t* column = a.data + 2 * q * a.col;
        const uint16_t* second = 2 * q + 1 < depth ? column + a.col : nullptr;
        for (int64_t t = begin; t < std::min(whole, begin + kLine); ++t)
          hn::BlendedStore(pairs_of(d, column + t * kRows, second ? second + t * kRows : nullptr),
                           mask, d, to + (t * pairs + q) * kRows);
      }
  for (int64_t i = whole * kRows; i < rows; ++i)
    for (int64_t q = 0; q < pairs; ++q) {
      const uint16_t* x = a.data + i * a.row + 2 * q * a.col;
      to[(i / kRows * pairs + q) * kRows + i % kRows] =
          pair_of(x, 2 * q + 1 < depth ? x + a.col : nullptr);
    }
}

/// Rows [0, depth) and columns [0, columns) of `b`: pair q of column i at to[q * width + i].
inline void pack_pairs_b(int64_t depth, int64_t columns, Bits b, uint32_t* HWY_RESTRICT to,
                         int64_t width) {
  const int64_t pairs = (depth + 1) / 2;
  int64_t first = 0;  // column that is not copied yet
  if (b.col == 1) {
    const hn::ScalableTag<uint32_t> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    first = columns / lanes * lanes;
    for (int64_t q = 0; q < pairs; ++q) {
      const uint16_t* row = b.data + 2 * q * b.row;
      const uint16_t* second = 2 * q + 1 < depth ? row + b.row : nullptr;
      for (int64_t i = 0; i < first; i += lanes)
        hn::Store(pairs_of(d, row + i, second ? second + i : nullptr), d, to + q * width + i);
    }
  } else if (b.row == 1) {
    const hn::ScalableTag<uint32_t> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; first + lanes <= columns; first += lanes) {
      const uint16_t* from = b.data + first * b.col;
      int64_t q = 0;
      for (; 2 * q + 8 <= depth; q += 4)
        transpose_four(d, from + 2 * q, b.col, to + q * width + first, width);
      for (; q < pairs; ++q)
        for (int64_t i = 0; i < lanes; ++i) {
          const uint16_t* x = from + i * b.col + 2 * q;
          to[q * width + first + i] = pair_of(x, 2 * q + 1 < depth ? x + 1 : nullptr);
        }
    }
  }
  for (int64_t q = 0; q < pairs; ++q)
    for (int64_t i = first; i < columns; ++i) {
      const uint16_t* x = b.data + 2 * q * b.row + i * b.col;
      to[q * width + i] = pair_of(x, 2 * q + 1 < depth ? x + b.row : nullptr);
    }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
