// Register tiles: some rows times the outputs of a group, over its columns.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/sparse/sparse_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/sparse/sparse_rows.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Accumulators take 2/3 of the registers at most.
#if HWY_TARGET <= HWY_AVX3
constexpr int kAccumulators = 24, kMaxRows = 8;
#else
constexpr int kAccumulators = 12, kMaxRows = 6;
#endif

/// R rows times V vectors of outputs, from output `first` of the group on.
template <class D, int R, int V>
HWY_INLINE void tile(D d, const SparseRows& s, int64_t row, const SparseGroup& group, int64_t first,
                     float* HWY_RESTRICT y, int64_t ld) {
  using Vec = hn::Vec<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* from[R];
  for (int r = 0; r < R; ++r) from[r] = s.x + s.rows[row + r];
  Vec acc[R][V];
  for (int v = 0; v < V; ++v) {
    const Vec bias = hn::LoadU(d, s.bias + first + v * lanes);
    for (int r = 0; r < R; ++r) acc[r][v] = bias;
  }
  const float* HWY_RESTRICT values = group.values + first;
  const int32_t* HWY_RESTRICT offsets = group.offsets;
  for (int64_t j = 0; j < group.count; ++j, values += s.vector) {
    const int64_t at = offsets[j];
    Vec w[V];
    for (int v = 0; v < V; ++v) w[v] = hn::LoadU(d, values + v * lanes);
    for (int r = 0; r < R; ++r) {
      const Vec x = hn::Set(d, from[r][at]);
      for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(x, w[v], acc[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) hn::StoreU(acc[r][v], d, y + r * ld + first + v * lanes);
}

/// All rows times V vectors of outputs.
template <class D, int V>
HWY_INLINE void strip(D d, const SparseRows& s, const SparseGroup& group, int64_t first, float* y,
                      int64_t ld) {
  constexpr int kRows = kAccumulators / V < kMaxRows ? kAccumulators / V : kMaxRows;
  int64_t row = 0;
  for (; row + kRows <= s.count; row += kRows)
    tile<D, kRows, V>(d, s, row, group, first, y + row * ld, ld);
  for (; row + 4 <= s.count && kRows > 4; row += 4)
    tile<D, 4, V>(d, s, row, group, first, y + row * ld, ld);
  for (; row + 2 <= s.count; row += 2) tile<D, 2, V>(d, s, row, group, first, y + row * ld, ld);
  if (row < s.count) tile<D, 1, V>(d, s, row, group, first, y + row * ld, ld);
}

template <size_t Lanes>
void strips(const SparseRows& s, const SparseGroup& group, float* y, int64_t ld) {
  const hn::CappedTag<float, Lanes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t first = 0;
  for (; first + 2 * lanes <= s.vector; first += 2 * lanes)
    strip<decltype(d), 2>(d, s, group, first, y, ld);
  for (; first < s.vector; first += lanes) strip<decltype(d), 1>(d, s, group, first, y, ld);
}

void rows_of(const SparseRows& s, const SparseGroup& group, float* y, int64_t ld) {
  if (s.vector >= 16) return strips<16>(s, group, y, ld);
  if (s.vector >= 8) return strips<8>(s, group, y, ld);
  strips<4>(s, group, y, ld);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(rows_of);

void sparse_rows(const SparseRows& rows, const SparseGroup& group, float* y, int64_t ld) {
  HWY_DYNAMIC_DISPATCH(rows_of)(rows, group, y, ld);
}

}  // namespace brim::cpu
#endif
