// Copies panels of strided matrices into the form that the broadcast tile reads with the fewest
// cache misses, compiled once per instruction set.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/gemm/gemm.h"

#if defined(BRIM_BACKEND_CPU_GEMM_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_GEMM_PACK_INL_H
#undef BRIM_BACKEND_CPU_GEMM_PACK_INL_H
#else
#define BRIM_BACKEND_CPU_GEMM_PACK_INL_H
#endif

#include <hwy/highway.h>

#include "backend/cpu/gemm/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// Rows [0, rows) and columns [0, depth) of `a` as tiles of kRows: element (i, q) of tile t lies at
/// to[(t * depth + q) * kRows + i]. The rest of the last tile is left as it is.
template <class T>
void pack_a(int64_t rows, int64_t depth, Matrix<T> a, T* HWY_RESTRICT to) {
  // Columns of `a` that are read side by side, each by whole cache lines: they may be a power of
  // two apart, and then a set of the L1 cache holds no more of them.
  constexpr int64_t kStep = 8, kLine = 64 / static_cast<int64_t>(sizeof(T)) / kRows;
  static_assert(kLine > 0);
  const int64_t whole = rows / kRows, rest = rows % kRows;
  if (a.row == 1) {
    for (int64_t q = 0; q < depth; q += kStep)
      for (int64_t first = 0; first < whole; first += kLine)
        for (int64_t s = q; s < std::min(depth, q + kStep); ++s) {
          const T* column = a.data + s * a.col;
          if (s + kStep < depth)  // the CPU does not foresee where columns begin
            hwy::Prefetch(column + kStep * a.col + first * kRows);
          for (int64_t t = first; t < std::min(whole, first + kLine); ++t)
            std::memcpy(to + (t * depth + s) * kRows, column + t * kRows, kRows * sizeof(T));
        }
  } else {
    for (int64_t t = 0; t < whole; ++t) {
      const T* from = a.data + t * kRows * a.row;
      T* tile = to + t * depth * kRows;
      for (int64_t q = 0; q < depth; ++q)
        for (int64_t i = 0; i < kRows; ++i) tile[q * kRows + i] = from[i * a.row + q * a.col];
    }
  }
  for (int64_t q = 0; rest > 0 && q < depth; ++q)
    for (int64_t i = 0; i < rest; ++i)
      to[(whole * depth + q) * kRows + i] = a.data[(whole * kRows + i) * a.row + q * a.col];
}

#if HWY_TARGET != HWY_SCALAR
/// One vector from four lanes' worth of each of the rows from, from + 4 ld, from + 8 ld ...
template <class D, class T>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* from, int64_t ld) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return hn::BitCast(d, hn::LoadU(hn::Repartition<T, D>(), from));
  } else {
    const hn::Half<D> half;
    constexpr int64_t kRowsInHalf = static_cast<int64_t>(hn::MaxLanes(D())) / 2;
    return hn::Combine(d, load_blocks(half, from + kRowsInHalf * ld, ld),
                       load_blocks(half, from, ld));
  }
}

/// Four columns of as many contiguous rows as a vector has lanes: to[q * ld_to + i] = element q of
/// row i, where rows `ld` apart are of elements as wide as lanes or of narrower ones side by side.
/// Exchanges numbers inside blocks of 128 bits only, which the loads arrange for.
template <class D, class T>
HWY_INLINE void transpose_four(D d, const T* from, int64_t ld, hn::TFromD<D>* to, int64_t ld_to) {
  const hn::Repartition<uint64_t, D> wide;
  const auto r0 = load_blocks(d, from, ld), r1 = load_blocks(d, from + ld, ld);
  const auto r2 = load_blocks(d, from + 2 * ld, ld), r3 = load_blocks(d, from + 3 * ld, ld);
  const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
  const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
  const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
  const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, to + ld_to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, to + 2 * ld_to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, to + 3 * ld_to);
}
#endif

/// Rows [0, depth) and columns [0, columns) of `b`, rows `width` apart.
template <class T>
void pack_b(int64_t depth, int64_t columns, Matrix<T> b, T* HWY_RESTRICT to, int64_t width) {
  if (b.col == 1) {
    const hn::ScalableTag<T> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const int64_t rest = columns % lanes, whole = columns - rest;
    const auto tail = hn::FirstN(d, static_cast<size_t>(rest));
    for (int64_t q = 0; q < depth; ++q) {
      const T* from = b.data + q * b.row;
      T* row = to + q * width;
      for (int64_t i = 0; i < whole; i += lanes) hn::Store(hn::LoadU(d, from + i), d, row + i);
      if (rest > 0) hn::Store(load_part(d, tail, from + whole, rest), d, row + whole);
    }
    return;
  }
  int64_t first = 0;  // column that is not copied yet
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const hn::ScalableTag<T> d;
    constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
    for (; b.row == 1 && first + kLanes <= columns; first += kLanes) {
      const T* from = b.data + first * b.col;
      int64_t q = 0;
      for (; q + 4 <= depth; q += 4)
        transpose_four(d, from + q, b.col, to + q * width + first, width);
      for (; q < depth; ++q)
        for (int64_t i = 0; i < kLanes; ++i) to[q * width + first + i] = from[i * b.col + q];
    }
  }
#endif
  for (int64_t q = 0; q < depth; ++q)
    for (int64_t i = first; i < columns; ++i) to[q * width + i] = b.data[q * b.row + i * b.col];
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
