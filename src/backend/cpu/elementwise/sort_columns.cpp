#include "backend/cpu/elementwise/sort_columns.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise/sort_columns.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Exchanges of neighbours, even and odd ones in turns, as many turns as rows. A vector of columns
/// goes through all of them before the next.
void sort_tile(int64_t* tile, int64_t rows) {
  const hn::ScalableTag<int64_t> d;
  for (int64_t column = 0; column < kSortedLines; column += static_cast<int64_t>(hn::Lanes(d)))
    for (int64_t turn = 0; turn < rows; ++turn)
      for (int64_t row = turn % 2; row + 1 < rows; row += 2) {
        int64_t* const first = tile + row * kSortedLines + column;
        const auto a = hn::LoadU(d, first), b = hn::LoadU(d, first + kSortedLines);
        hn::StoreU(hn::Min(a, b), d, first);
        hn::StoreU(hn::Max(a, b), d, first + kSortedLines);
      }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace brim::cpu {

HWY_EXPORT(sort_tile);

void sort_columns(int64_t* tile, int64_t rows) { HWY_DYNAMIC_DISPATCH(sort_tile)(tile, rows); }

}  // namespace brim::cpu
#endif
