// Register tiles of matrix products, compiled once per instruction set: what gemm and the fused
// kernels of fully connected layers are made of.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#if defined(BRIM_BACKEND_CPU_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_GEMM_INL_H
#undef BRIM_BACKEND_CPU_GEMM_INL_H
#else
#define BRIM_BACKEND_CPU_GEMM_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "backend/cpu/elementwise/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Accumulators out of 16 or 32 registers: kRows x kVecs of the broadcast tile, kDotRows x kDotCols
// of the dot tile. Small tiles read operands more often, so that copies of them pay off earlier.
#if HWY_TARGET <= HWY_AVX3
constexpr int kRows = 6, kVecs = 4;
constexpr int kDotRows = 4, kDotCols = 6;
constexpr bool kSmallTiles = false;
#else
constexpr int kRows = 4, kVecs = 3;
constexpr int kDotRows = 4, kDotCols = 2;
constexpr bool kSmallTiles = true;
#endif

// Masked loads and stores of some targets touch the whole vector, which may end in memory that is
// another thread's or nobody's. AVX2 has true ones for our types.
#if HWY_MEM_OPS_MIGHT_FAULT && HWY_TARGET != HWY_AVX2
template <class D, class M, class T>
hn::Vec<D> load_part(D d, M, const T* from, int64_t count) {
  HWY_ALIGN T part[HWY_MAX_BYTES / sizeof(T)] = {};
  std::copy_n(from, count, part);
  return hn::Load(d, part);
}
template <class D, class M, class T>
void store_part(hn::Vec<D> v, D d, M, T* to, int64_t count) {
  HWY_ALIGN T part[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, part);
  std::copy_n(part, count, to);
}
#else
template <class D, class M, class T>
HWY_INLINE hn::Vec<D> load_part(D d, M mask, const T* from, int64_t) {
  return hn::MaskedLoad(mask, d, from);
}
template <class D, class M, class T>
HWY_INLINE void store_part(hn::Vec<D> v, D d, M mask, T* to, int64_t) {
  hn::BlendedStore(v, mask, d, to);
}
#endif

/// Bytes of k that one pass sums in registers. Where all kernels cut at the same places, a product
/// has the same bits whichever of them makes it: with small tiles they do.
constexpr int64_t kPassBytes = 1024;

// The loops over a tile's registers are unrolled by force: where the compiler leaves one of them,
// it keeps all accumulators in memory.

/// R rows x V vectors of C = A B (+ C): vectors run along B's rows, which are contiguous, and A's
/// elements are broadcast. `columns` of C are stored; the last vector may be part of one.
template <class T, int R, int V>
HWY_INLINE void broadcast_tile(int64_t k, const T* HWY_RESTRICT a, int64_t row, int64_t col,
                               const T* HWY_RESTRICT b, int64_t ldb, bool accumulate,
                               T* HWY_RESTRICT c, int64_t ldc, int64_t columns) {
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool whole = columns == V * lanes;
  Vec acc[R][V];
  HWY_UNROLL(32)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(32)
    for (int v = 0; v < V; ++v) acc[r][v] = hn::Zero(d);
  }
  const int64_t rest = columns - (V - 1) * lanes;
  const auto tail = hn::FirstN(d, static_cast<size_t>(rest));
  for (int64_t p = 0; p < k; ++p, a += col, b += ldb) {
    Vec x[V];
    HWY_UNROLL(32)
    for (int v = 0; v < V - 1; ++v) x[v] = hn::LoadU(d, b + v * lanes);
    x[V - 1] =
        whole ? hn::LoadU(d, b + (V - 1) * lanes) : load_part(d, tail, b + (V - 1) * lanes, rest);
    HWY_UNROLL(32)
    for (int r = 0; r < R; ++r) {
      const Vec w = hn::Set(d, a[r * row]);
      HWY_UNROLL(32)
      for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(w, x[v], acc[r][v]);
    }
  }
  if (whole) {  // without masks, which some processors store by slowly
    HWY_UNROLL(32)
    for (int r = 0; r < R; ++r, c += ldc) {
      HWY_UNROLL(32)
      for (int v = 0; v < V; ++v) {
        const Vec sum = accumulate ? hn::Add(acc[r][v], hn::LoadU(d, c + v * lanes)) : acc[r][v];
        hn::StoreU(sum, d, c + v * lanes);
      }
    }
    return;
  }
  HWY_UNROLL(32)
  for (int r = 0; r < R; ++r, c += ldc) {
    HWY_UNROLL(32)
    for (int v = 0; v < V - 1; ++v) {
      const Vec old = accumulate ? hn::LoadU(d, c + v * lanes) : hn::Zero(d);
      hn::StoreU(hn::Add(acc[r][v], old), d, c + v * lanes);
    }
    T* last = c + (V - 1) * lanes;
    const Vec old = accumulate ? load_part(d, tail, last, rest) : hn::Zero(d);
    store_part(hn::Add(acc[r][V - 1], old), d, tail, last, rest);
  }
}

constexpr int64_t kFar = 64;  // k from which a tile takes longer than C's way to the L1 cache

/// The tiles of a block of A that is `rows` high, against one panel of B; tiles of A are `tile`
/// elements apart, their rows and columns `row` and `col`.
template <class T, int V>
void broadcast_rows(int64_t rows, int64_t k, const T* a, int64_t tile, int64_t row, int64_t col,
                    const T* b, int64_t ldb, bool accumulate, T* c, int64_t ldc, int64_t columns) {
  for (; rows >= kRows; rows -= kRows, a += tile, c += kRows * ldc) {
    if (k >= kFar)
      for (int64_t r = 0; r < std::min<int64_t>(kRows, rows); ++r)
        for (int64_t i = 0; i < columns; i += 64 / static_cast<int64_t>(sizeof(T)))
          hwy::Prefetch(c + r * ldc + i);
    broadcast_tile<T, kRows, V>(k, a, row, col, b, ldb, accumulate, c, ldc, columns);
  }
  switch (rows) {
    case 5:
      return broadcast_tile<T, 5, V>(k, a, row, col, b, ldb, accumulate, c, ldc, columns);
    case 4:
      return broadcast_tile<T, 4, V>(k, a, row, col, b, ldb, accumulate, c, ldc, columns);
    case 3:
      return broadcast_tile<T, 3, V>(k, a, row, col, b, ldb, accumulate, c, ldc, columns);
    case 2:
      return broadcast_tile<T, 2, V>(k, a, row, col, b, ldb, accumulate, c, ldc, columns);
    case 1:
      return broadcast_tile<T, 1, V>(k, a, row, col, b, ldb, accumulate, c, ldc, columns);
    default:
      return;
  }
}

/// The same for any number of columns up to kVecs vectors.
template <class T>
void broadcast_panel(int64_t rows, int64_t k, const T* a, int64_t tile, int64_t row, int64_t col,
                     const T* b, int64_t ldb, bool accumulate, T* c, int64_t ldc, int64_t columns) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const auto run = [&]<int V>(std::integral_constant<int, V>) {
    broadcast_rows<T, V>(rows, k, a, tile, row, col, b, ldb, accumulate, c, ldc, columns);
  };
  static_assert(kVecs == 3 || kVecs == 4);
  switch ((columns + lanes - 1) / lanes) {
    case 4:
      return run(std::integral_constant<int, kVecs>());
    case 3:
      return run(std::integral_constant<int, 3>());
    case 2:
      return run(std::integral_constant<int, 2>());
    default:
      return run(std::integral_constant<int, 1>());
  }
}

/// to[i] = the sum of v[i]'s lanes, for four vectors at once where the target has shuffles for it.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_sums(D d, hn::Vec<D> v0, hn::Vec<D> v1, hn::Vec<D> v2, hn::Vec<D> v3, T* to) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(d) >= 4 && sizeof(T) == 4) {
    const auto halves = [d](auto a, auto b) {  // per block of 128 bits: a0+a2 b0+b2 a1+a3 b1+b3
      return hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    };
    const hn::Repartition<uint64_t, D> wide;
    const auto low = hn::BitCast(wide, halves(v0, v1)), high = hn::BitCast(wide, halves(v2, v3));
    auto sum = hn::Add(hn::BitCast(d, hn::InterleaveLower(wide, low, high)),
                       hn::BitCast(d, hn::InterleaveUpper(wide, low, high)));
    if constexpr (hn::MaxLanes(d) == 4) {
      hn::StoreU(sum, d, to);
    } else {
      const hn::Half<D> half;
      const auto blocks = hn::Add(hn::LowerHalf(half, sum), hn::UpperHalf(half, sum));
      if constexpr (hn::MaxLanes(d) == 8) {
        hn::StoreU(blocks, half, to);
      } else {
        const hn::Half<decltype(half)> quarter;
        hn::StoreU(hn::Add(hn::LowerHalf(quarter, blocks), hn::UpperHalf(quarter, blocks)), quarter,
                   to);
      }
    }
    return;
  }
#endif
  to[0] = hn::GetLane(hn::SumOfLanes(d, v0));
  to[1] = hn::GetLane(hn::SumOfLanes(d, v1));
  to[2] = hn::GetLane(hn::SumOfLanes(d, v2));
  to[3] = hn::GetLane(hn::SumOfLanes(d, v3));
}

/// The first `count` numbers, behind which there may be none, and zeros.
template <class D, class W>
HWY_INLINE hn::Vec<D> load_first(D d, const W* from, int64_t count) {
  if constexpr (std::is_same_v<W, hn::TFromD<D>>) {
    return load_part(d, hn::FirstN(d, static_cast<size_t>(count)), from, count);
  } else {
    W part[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)] = {};
    std::copy_n(from, count, part);
    return load(d, part);
  }
}

/// sums[r * S + s] = A's row r times B's column s along contiguous k, for R rows and S columns; B
/// may be stored in fewer bits. `sums` has room for a multiple of four.
template <class T, int R, int S, class W, size_t kRoom>
HWY_INLINE void dot_tile(int64_t k, const T* HWY_RESTRICT a, int64_t lda, const W* HWY_RESTRICT b,
                         int64_t ldb, T (&sums)[kRoom]) {
  static_assert((R * S + 3) / 4 * 4 <= kRoom);
  const hn::ScalableTag<T> d;
  using Vec = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec acc[R * S];
  HWY_UNROLL(32)
  for (int i = 0; i < R * S; ++i) acc[i] = hn::Zero(d);
  int64_t p = 0;
  for (; p + lanes <= k; p += lanes) {
    Vec x[R];
    HWY_UNROLL(32)
    for (int r = 0; r < R; ++r) x[r] = hn::LoadU(d, a + r * lda + p);
    HWY_UNROLL(32)
    for (int s = 0; s < S; ++s) {
      const Vec w = load(d, b + s * ldb + p);
      HWY_UNROLL(32)
      for (int r = 0; r < R; ++r) acc[r * S + s] = hn::MulAdd(x[r], w, acc[r * S + s]);
    }
  }
  if (p < k) {
    Vec x[R];
    HWY_UNROLL(32)
    for (int r = 0; r < R; ++r) x[r] = load_first(d, a + r * lda + p, k - p);
    HWY_UNROLL(32)
    for (int s = 0; s < S; ++s) {
      const Vec w = load_first(d, b + s * ldb + p, k - p);
      HWY_UNROLL(32)
      for (int r = 0; r < R; ++r) acc[r * S + s] = hn::MulAdd(x[r], w, acc[r * S + s]);
    }
  }
  // All sums in the same order, wherever in a tile they are: fours, the last filled up.
  HWY_UNROLL(32)
  for (int i = 0; i < R * S; i += 4) {
    const auto at = [&](int j) HWY_ATTR { return j < R * S ? acc[j] : hn::Zero(d); };
    store_sums(d, at(i), at(i + 1), at(i + 2), at(i + 3), sums + i);
  }
}

/// Dot tiles of R rows over columns [begin, end): store(j, count, sums) gets `count` columns from j
/// on, sums[r * count + s]; vectors may be loaded from any of them.
template <int R, class T, class W, class Store>
HWY_INLINE void dot_row_block(int64_t begin, int64_t end, int64_t k, const T* a, int64_t lda,
                              const W* b, int64_t ldb, const Store& store) {
  HWY_ALIGN T sums[(R * kDotCols + 3) / 4 * 4 + HWY_MAX_BYTES / sizeof(T)] = {};
  int64_t j = begin;
  const auto tiles = [&]<int S>(std::integral_constant<int, S> columns) {
    for (; j + S <= end; j += S) {
      dot_tile<T, R, S>(k, a, lda, b + j * ldb, ldb, sums);
      store(j, columns, sums);
    }
  };
  tiles(std::integral_constant<int, kDotCols>());
  if constexpr (kDotCols > 2) tiles(std::integral_constant<int, 2>());
  tiles(std::integral_constant<int, 1>());
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
