// A sample's step of an LSTM and its gradients, compiled once per instruction set.
#include <cstdint>

#include <brim/formula/dense.h>
#include <brim/formula/math.h>

#if defined(BRIM_BACKEND_CPU_LSTM_STEP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BRIM_BACKEND_CPU_LSTM_STEP_INL_H
#undef BRIM_BACKEND_CPU_LSTM_STEP_INL_H
#else
#define BRIM_BACKEND_CPU_LSTM_STEP_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// One sample's step. x and gates: what together gives the gates i, f, g, o of n units each; gates
/// becomes their values.
template <class T>
void lstm_step(const T* HWY_RESTRICT x, const T* HWY_RESTRICT c_before, T* HWY_RESTRICT gates,
               T* HWY_RESTRICT c, T* HWY_RESTRICT h, int64_t n) {
  BRIM_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const T i = formula::sigmoid(x[k] + gates[k]);
    const T f = formula::sigmoid(x[n + k] + gates[n + k]);
    const T g = formula::tanh(x[2 * n + k] + gates[2 * n + k]);
    const T o = formula::sigmoid(x[3 * n + k] + gates[3 * n + k]);
    const T cell = f * c_before[k] + i * g;
    gates[k] = i;
    gates[n + k] = f;
    gates[2 * n + k] = g;
    gates[3 * n + k] = o;
    c[k] = cell;
    h[k] = o * formula::tanh(cell);
  }
}

/// The gradients of lstm_step. dh, dc: of the states behind the step, from the steps that follow;
/// dc becomes that of the cell before it. dgates: of the gates' sums.
template <class T>
void lstm_step_grad(const T* HWY_RESTRICT dy, const T* HWY_RESTRICT dcell,
                    const T* HWY_RESTRICT gates, const T* HWY_RESTRICT c_before,
                    const T* HWY_RESTRICT c, const T* HWY_RESTRICT dh, T* HWY_RESTRICT dc,
                    T* HWY_RESTRICT dgates, int64_t n) {
  BRIM_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const T i = gates[k], f = gates[n + k], g = gates[2 * n + k], o = gates[3 * n + k];
    const T up = dy[k] + dh[k], squashed = formula::tanh(c[k]);
    const T down = dc[k] + dcell[k] + up * o * (T(1) - squashed * squashed);
    dgates[k] = down * g * i * (T(1) - i);
    dgates[n + k] = down * c_before[k] * f * (T(1) - f);
    dgates[2 * n + k] = down * i * (T(1) - g * g);
    dgates[3 * n + k] = up * squashed * o * (T(1) - o);
    dc[k] = down * f;
  }
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
