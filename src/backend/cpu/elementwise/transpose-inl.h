// Transposes small matrices in registers; included once per instruction set.
#include <algorithm>
#include <cstdint>

#if defined(BRIM_CPU_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_TRANSPOSE_INL_H
#undef BRIM_CPU_TRANSPOSE_INL_H
#else
#define BRIM_CPU_TRANSPOSE_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Rows of at most so many elements leave most of a vector's work undone: kernels transpose a tile
/// of them, so that vectors go across the rows.
inline constexpr int64_t kShortRow = 32;

/// Whether lines of numbers that lie `ld` apart share few sets of a cache: before more of them are
/// touched, each should be used up.
template <class T>
bool shares_sets(int64_t ld) {
  return ld * static_cast<int64_t>(sizeof(T)) % 2048 == 0;
}

/// Calls block(row, column) for blocks of `side` rows and columns, of which the last overlap those
/// before; down the columns first with `down`.
template <class Block>
HWY_INLINE void each_block(int64_t rows, int64_t columns, int64_t side, bool down,
                           const Block& block) {
  if (down) {
    for (int64_t column = 0; column < columns; column += side)
      for (int64_t row = 0; row < rows; row += side)
        block(std::min(row, rows - side), std::min(column, columns - side));
    return;
  }
  for (int64_t row = 0; row < rows; row += side)
    for (int64_t column = 0; column < columns; column += side)
      block(std::min(row, rows - side), std::min(column, columns - side));
}

/// to[column * to_ld + row] = from[row * from_ld + column]
inline void transpose(const float* from, int64_t from_ld, int64_t rows, int64_t columns, float* to,
                      int64_t to_ld) {
#if HWY_TARGET != HWY_SCALAR
  if (rows >= 4 && columns >= 4) {
    const hn::CappedTag<float, 4> d;
    each_block(rows, columns, 4, shares_sets<float>(to_ld), [&](int64_t r, int64_t c) HWY_ATTR {
      const float* at = from + r * from_ld + c;
      const auto r0 = hn::LoadU(d, at), r1 = hn::LoadU(d, at + from_ld);
      const auto r2 = hn::LoadU(d, at + 2 * from_ld), r3 = hn::LoadU(d, at + 3 * from_ld);
      const auto low01 = hn::InterleaveLower(d, r0, r1), low23 = hn::InterleaveLower(d, r2, r3);
      const auto up01 = hn::InterleaveUpper(d, r0, r1), up23 = hn::InterleaveUpper(d, r2, r3);
      float* out = to + c * to_ld + r;
      hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, out);
      hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, out + to_ld);
      hn::StoreU(hn::ConcatLowerLower(d, up23, up01), d, out + 2 * to_ld);
      hn::StoreU(hn::ConcatUpperUpper(d, up23, up01), d, out + 3 * to_ld);
    });
    return;
  }
#endif
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[c * to_ld + r] = from[r * from_ld + c];
}

/// The same for numbers of other sizes.
template <class T>
void transpose(const T* from, int64_t from_ld, int64_t rows, int64_t columns, T* to,
               int64_t to_ld) {
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kSide = 16 / sizeof(T);
  if (rows >= kSide && columns >= kSide) {
    const hn::FixedTag<T, kSide> d;
    each_block(rows, columns, kSide, shares_sets<T>(to_ld), [&](int64_t r, int64_t c) HWY_ATTR {
      hn::Vec<decltype(d)> block[kSide], mixed[kSide];
      for (int64_t i = 0; i < kSide; ++i) block[i] = hn::LoadU(d, from + (r + i) * from_ld + c);
      // Perfect shuffles of all numbers, as many as halve a side to one, exchange rows and
      // columns.
      for (int64_t half = kSide / 2; half > 0; half /= 2) {
        for (int64_t i = 0; i < kSide / 2; ++i) {
          mixed[2 * i] = hn::InterleaveLower(d, block[i], block[i + kSide / 2]);
          mixed[2 * i + 1] = hn::InterleaveUpper(d, block[i], block[i + kSide / 2]);
        }
        std::copy(mixed, mixed + kSide, block);
      }
      for (int64_t i = 0; i < kSide; ++i) hn::StoreU(block[i], d, to + (c + i) * to_ld + r);
    });
    return;
  }
#endif
  for (int64_t c = 0; c < columns; ++c, to += to_ld) {
    const T* at = from + c;
    for (int64_t r = 0; r < rows; ++r, at += from_ld) to[r] = *at;
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
