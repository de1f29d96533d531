// Maps of runs of floats, computed in registers of f32, or of f64 where they are stored as such; 16
// bits are rounded to nearest even.
// Include it inside a foreach_target file only.
#if defined(BRIM_CPU_MAP_RUN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_MAP_RUN_INL_H
#undef BRIM_CPU_MAP_RUN_INL_H
#else
#define BRIM_CPU_MAP_RUN_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/elementwise/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Whether floats stored in 16 bits, as W, are computed in registers of f32.
template <class W>
constexpr bool kInRegisters = HWY_TARGET != HWY_SCALAR && sizeof(W) == 2 && kLoads<W>;

/// to[i] = vector(operands, i), which loads from operands[k] + i; operands may be null, and `to`
/// may be one of them. What is behind the last two vectors is computed in them too, so that all
/// numbers are rounded alike.
template <int kOperands, class In, class W, class Vector>
HWY_INLINE void map_run(const In* const (&operands)[kOperands], int64_t n, W* to,
                        const Vector& vector) {
  using T = std::conditional_t<std::is_same_v<W, double>, double, float>;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes)
    store_two(d, vector(operands, i), vector(operands, i + lanes), to + i);
  if (i == n) return;
  constexpr int64_t kRest = 2 * HWY_MAX_BYTES / sizeof(T);
  HWY_ALIGN In rest[kOperands][kRest] = {};
  HWY_ALIGN W result[kRest];
  const In* at[kOperands];
  for (int k = 0; k < kOperands; ++k) {
    at[k] = operands[k] ? rest[k] : nullptr;
    if (operands[k]) std::copy_n(operands[k] + i, n - i, rest[k]);
  }
  const In* const(&rests)[kOperands] = at;
  store_two(d, vector(rests, 0), vector(rests, lanes), result);
  std::copy_n(result, n - i, to + i);
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
