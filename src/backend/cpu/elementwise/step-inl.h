// An optimizer's step over dense numbers. Include it inside a foreach_target file only.
#if defined(BRIM_CPU_STEP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_CPU_STEP_INL_H
#undef BRIM_CPU_STEP_INL_H
#else
#define BRIM_CPU_STEP_INL_H
#endif

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// Parameter, gradient and states never overlap.
template <class F, class T, size_t N>
HWY_INLINE void step_run(const F& f, T* p, const T* g, const std::array<T*, N>& states, int64_t n) {
#if defined(__clang__)
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < n; ++i) {
    T s[F::kStates + 1];
    for (size_t k = 0; k < F::kStates; ++k) s[k] = states[k][i];
    f(p[i], g[i], s);
    for (size_t k = 0; k < F::kStates; ++k) states[k][i] = s[k];
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
