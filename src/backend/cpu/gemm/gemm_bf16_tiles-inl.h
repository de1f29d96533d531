// Register tiles of products of bf16: what gemm_bf16 is made of. Empty for instruction sets without
// such products; included once for each, by a source that defines HWY_WANT_AVX3_DL first.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/gemm/gemm_bf16.h"

#if defined(BRIM_BACKEND_CPU_GEMM_BF16_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_GEMM_BF16_TILES_INL_H
#undef BRIM_BACKEND_CPU_GEMM_BF16_TILES_INL_H
#else
#define BRIM_BACKEND_CPU_GEMM_BF16_TILES_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "backend/cpu/gemm/gemm-inl.h"

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Bits = Matrix<uint16_t>;
using Numbers = hn::ScalableTag<float>;
using Vec = hn::Vec<Numbers>;
constexpr int64_t kLanes = 16;
constexpr int64_t kWidth = kVecs * kLanes;

// No intrinsics: Highway 1.0 does not ask the compiler for avx512bf16.

/// sum + the products of pairs.
HWY_INLINE Vec plus_products(Vec sum, Vec x, Vec w) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
  return sum;
}
HWY_INLINE __m256i to_bf16(Vec v) {
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(v.raw));
  return rounded;
}

/// Where a tile's sums go to: added to `sums`, which hold those of earlier blocks of k, and rounded
/// into c if these are the last.
struct Target {
  BFloat16* c;
  int64_t ldc;
  float* sums;
  int64_t ld_sums;
  bool first, last;
  Bf16Finish finish;

  Target at(int64_t i, int64_t j) const {
    Target moved = *this;
    moved.c += i * ldc + j;
    if (sums) moved.sums += i * ld_sums + j;
    if (finish.bias) moved.finish.bias += j;
    if (finish.row_bias) moved.finish.row_bias += i;
    return moved;
  }
  /// Numbers in `mask` of row r from column j on.
  HWY_INLINE void store(Vec v, int64_t r, int64_t j, __mmask16 mask) const {
    if (!first) v.raw = _mm512_add_ps(v.raw, _mm512_maskz_loadu_ps(mask, sums + r * ld_sums + j));
    if (!last) return _mm512_mask_storeu_ps(sums + r * ld_sums + j, mask, v.raw);
    if (finish.bias) v.raw = _mm512_add_ps(v.raw, _mm512_maskz_loadu_ps(mask, finish.bias + j));
    if (finish.row_bias) v = hn::Add(v, hn::Set(Numbers(), finish.row_bias[r]));
    if (finish.relu) v = hn::IfThenElse(hn::Lt(v, hn::Zero(Numbers())), hn::Zero(Numbers()), v);
    _mm256_mask_storeu_epi16(c + r * ldc + j, mask, to_bf16(v));
  }
};

/// A row's beginning: the CPU foresees the rest of a longer one.
HWY_INLINE void prefetch_row(const uint16_t* row, int64_t count) {
  constexpr int64_t kLine = 32, kMax = 16 * kLine;
  for (int64_t p = 0; p < std::min(count, kMax); p += kLine) hwy::Prefetch(row + p);
}

/// Rows of A as tiles read them: pair q of row i of tile t is data[t * tile + i * row + q * pair].
struct TileRows {
  const uint16_t* data;
  int64_t tile, row, pair;
  int64_t ahead = 0;  // numbers of the next tile's rows that are prefetched

  static TileRows in_place(const Bits& a) { return {a.data, kRows * a.row, a.row, 2}; }
  /// As pack_pairs_a() leaves them.
  static TileRows packed(const uint32_t* tiles, int64_t pairs) {
    return {reinterpret_cast<const uint16_t*>(tiles), 2 * kRows * pairs, 2, 2 * kRows};
  }
  HWY_INLINE void prefetch(int64_t count) const {
    for (int64_t r = 0; r < count && ahead > 0; ++r) prefetch_row(data + tile + r * row, ahead);
  }
};

/// A panel of B that is packed: vector v of pair q.
struct PackedPanel {
  const uint32_t* pairs;

  HWY_INLINE Vec load(int64_t q, int v, __mmask16) const {
    return Vec{_mm512_loadu_ps(pairs + q * kWidth + v * kLanes)};
  }
};

/// A panel of B that is read in place, whose rows are contiguous.
struct PanelInPlace {
  static constexpr int64_t kAhead = 32;  // rows, which memory needs to bring them
  const uint16_t* rows;
  int64_t ld, depth;

  HWY_INLINE Vec load(int64_t q, int v, __mmask16 mask) const {
    const uint16_t* first = rows + 2 * q * ld + v * kLanes;
    const bool both = 2 * q + 1 < depth;
    hwy::Prefetch(first + kAhead * ld);
    hwy::Prefetch(first + (kAhead + 1) * ld);
    const __m256i low = _mm256_maskz_loadu_epi16(mask, first);
    const __m256i high =
        _mm256_maskz_loadu_epi16(both ? mask : __mmask16{0}, both ? first + ld : first);
    return Vec{_mm512_castsi512_ps(_mm512_or_si512(
        _mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16)))};
  }
};

/// A pair, of no alignment, for all columns.
HWY_INLINE Vec pair_at(const uint16_t* x) {
  float pair;
  hwy::CopyBytes<4>(x, &pair);
  return hn::Set(Numbers(), pair);
}

/// R rows x V vectors of C, of which `columns` are stored.
template <int R, int V, class Panel>
HWY_INLINE void tile_bf16(int64_t pairs, const TileRows& rows, const Panel& b, const Target& to,
                          int64_t columns) {
  constexpr __mmask16 kAll = 0xffff;
  const Numbers d;
  const auto tail = static_cast<__mmask16>((1u << (columns - (V - 1) * kLanes)) - 1);
  Vec acc[R][V];
  HWY_UNROLL(32)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(32)
    for (int v = 0; v < V; ++v) acc[r][v] = hn::Zero(d);
  }
  const uint16_t* HWY_RESTRICT a = rows.data;
  const int64_t row = rows.row, step = rows.pair;
  int64_t q = 0;
  if constexpr (V == 1) {  // too few sums to wait for: a second one each
    Vec other[R];
    HWY_UNROLL(32)
    for (int r = 0; r < R; ++r) other[r] = hn::Zero(d);
    for (; q + 1 < pairs; q += 2, a += 2 * step) {
      const Vec x0 = b.load(q, 0, tail), x1 = b.load(q + 1, 0, tail);
      HWY_UNROLL(32)
      for (int r = 0; r < R; ++r) {
        acc[r][0] = plus_products(acc[r][0], pair_at(a + r * row), x0);
        other[r] = plus_products(other[r], pair_at(a + r * row + step), x1);
      }
    }
    HWY_UNROLL(32)
    for (int r = 0; r < R; ++r) acc[r][0] = hn::Add(acc[r][0], other[r]);
  }
  for (; q < pairs; ++q, a += step) {
    Vec x[V];
    HWY_UNROLL(32)
    for (int v = 0; v < V; ++v) x[v] = b.load(q, v, v < V - 1 ? kAll : tail);
    HWY_UNROLL(32)
    for (int r = 0; r < R; ++r) {
      const Vec w = pair_at(a + r * row);
      HWY_UNROLL(32)
      for (int v = 0; v < V; ++v) acc[r][v] = plus_products(acc[r][v], w, x[v]);
    }
  }
  HWY_UNROLL(32)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(32)
    for (int v = 0; v < V; ++v) to.store(acc[r][v], r, v * kLanes, v < V - 1 ? kAll : tail);
  }
}

template <int V, class Panel>
void rows_bf16(int64_t rows, int64_t pairs, TileRows a, const Panel& b, const Target& to,
               int64_t columns) {
  const auto tile = [&]<int R>(std::integral_constant<int, R>, int64_t i) {
    if (i + kRows < rows) a.prefetch(std::min<int64_t>(kRows, rows - i - kRows));
    tile_bf16<R, V>(pairs, a, b, to.at(i, 0), columns);
    a.data += a.tile;
  };
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) tile(std::integral_constant<int, kRows>(), i);
  static_assert(kRows == 6);
  switch (rows - i) {
    case 5:
      return tile(std::integral_constant<int, 5>(), i);
    case 4:
      return tile(std::integral_constant<int, 4>(), i);
    case 3:
      return tile(std::integral_constant<int, 3>(), i);
    case 2:
      return tile(std::integral_constant<int, 2>(), i);
    case 1:
      return tile(std::integral_constant<int, 1>(), i);
    default:
      return;
  }
}

/// A block of A's rows against one panel of B.
template <class Panel>
void panel_bf16(int64_t rows, int64_t pairs, const TileRows& a, const Panel& b, const Target& to,
                int64_t columns) {
  const auto run = columns > 3 * kLanes   ? &rows_bf16<4, Panel>
                   : columns > 2 * kLanes ? &rows_bf16<3, Panel>
                   : columns > kLanes     ? &rows_bf16<2, Panel>
                                          : &rows_bf16<1, Panel>;
  run(rows, pairs, a, b, to, columns);
}

Bits part_of(const Bits& x, int64_t i, int64_t j) {
  return {x.data + i * x.row + j * x.col, x.row, x.col};
}

HWY_INLINE Vec load_pairs(__mmask32 mask, const uint16_t* from) {
  return Vec{_mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, from))};
}

/// R rows x S columns of C along contiguous k.
template <int R, int S>
HWY_INLINE void dot_tile_bf16(int64_t k, const uint16_t* HWY_RESTRICT a, int64_t lda,
                              const uint16_t* HWY_RESTRICT b, int64_t ldb, const Target& to) {
  constexpr int64_t kPairs = 2 * kLanes;
  const Numbers d;
  Vec acc[R * S];
  HWY_UNROLL(32)
  for (int i = 0; i < R * S; ++i) acc[i] = hn::Zero(d);
  for (int64_t p = 0; p < k; p += kPairs) {
    const auto mask = static_cast<__mmask32>((uint64_t{1} << std::min(kPairs, k - p)) - 1);
    Vec x[R];
    HWY_UNROLL(32)
    for (int r = 0; r < R; ++r) x[r] = load_pairs(mask, a + r * lda + p);
    HWY_UNROLL(32)
    for (int s = 0; s < S; ++s) {
      const Vec w = load_pairs(mask, b + s * ldb + p);
      HWY_UNROLL(32)
      for (int r = 0; r < R; ++r) acc[r * S + s] = plus_products(acc[r * S + s], x[r], w);
    }
  }
  HWY_ALIGN float sums[(R * S + 3) / 4 * 4 + kLanes];
  HWY_UNROLL(32)
  for (int i = 0; i < R * S; i += 4) {
    const auto at = [&](int j) HWY_ATTR { return j < R * S ? acc[j] : hn::Zero(d); };
    store_sums(d, at(i), at(i + 1), at(i + 2), at(i + 3), sums + i);
  }
  for (int r = 0; r < R; ++r) to.store(hn::LoadU(d, sums + r * S), r, 0, (1 << S) - 1);
}

/// R rows of C.
template <int R>
void dot_rows_bf16(int64_t n, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* b,
                   int64_t ldb, const Target& to) {
  int64_t j = 0;
  for (; j + kDotCols <= n; j += kDotCols)
    dot_tile_bf16<R, kDotCols>(k, a, lda, b + j * ldb, ldb, to.at(0, j));
  for (; j + 2 <= n; j += 2) dot_tile_bf16<R, 2>(k, a, lda, b + j * ldb, ldb, to.at(0, j));
  if (j < n) dot_tile_bf16<R, 1>(k, a, lda, b + j * ldb, ldb, to.at(0, j));
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
