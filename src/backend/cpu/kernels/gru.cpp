// The steps of gated recurrent units on the CPU and their gradients, as those of an LSTM in
// lstm.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/gru.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <brim/formula/dense.h>
#include <brim/formula/math.h>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/recurrent/recurrent-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/types.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

/// One sample's step. x: what the input gives the gates r, z, n of `count` units each; gates: what
/// the hidden state gives them without its bias, then r, z, that of n with the bias, n.
template <class T>
void gru_step(const T* HWY_RESTRICT x, const T* HWY_RESTRICT bias, const T* HWY_RESTRICT h_before,
              T* HWY_RESTRICT gates, T* HWY_RESTRICT h, int64_t count) {
  BRIM_INDEPENDENT
  for (int64_t k = 0; k < count; ++k) {
    const T r = formula::sigmoid(x[k] + (gates[k] + bias[k]));
    const T z = formula::sigmoid(x[count + k] + (gates[count + k] + bias[count + k]));
    const T inner = gates[2 * count + k] + bias[2 * count + k];
    const T n = formula::tanh(x[2 * count + k] + r * inner);
    gates[k] = r;
    gates[count + k] = z;
    gates[2 * count + k] = inner;
    gates[3 * count + k] = n;
    h[k] = n + z * (h_before[k] - n);
  }
}

/// The gradients of gru_step. dh: of the state behind the step, from the steps that follow; becomes
/// what h_before gets past the gates. dx, dgates: of what the input and the hidden state give.
template <class T>
void gru_step_grad(const T* HWY_RESTRICT dy, const T* HWY_RESTRICT gates,
                   const T* HWY_RESTRICT h_before, T* HWY_RESTRICT dh, T* HWY_RESTRICT dx,
                   T* HWY_RESTRICT dgates, int64_t count) {
  BRIM_INDEPENDENT
  for (int64_t k = 0; k < count; ++k) {
    const T r = gates[k], z = gates[count + k], inner = gates[2 * count + k];
    const T n = gates[3 * count + k], up = dy[k] + dh[k];
    const T dn = up * (T(1) - z) * (T(1) - n * n);
    const T dz = up * (h_before[k] - n) * z * (T(1) - z);
    const T dr = dn * inner * r * (T(1) - r);
    dx[k] = dr;
    dx[count + k] = dz;
    dx[2 * count + k] = dn;
    dgates[k] = dr;
    dgates[count + k] = dz;
    dgates[2 * count + k] = dn * r;
    dh[k] = up * z;
  }
}

template <class T>
void gru(const Context& context, const Tensor& tgates, const Tensor& weight, const Tensor& tbias,
         const Tensor& h, Tensor& ty, Tensor& saved, bool reverse) {
  const Recurrence job(ty, reverse);
  if (job.empty()) return;
  const int64_t n = job.hidden, all = job.batch * n;
  const PackedColumns<T> w(context, n, 3 * n,
                           {in<T>(weight), weight.strides()[1], weight.strides()[0]});
  const Workspace passing(
      context.workspace(saved.defined() ? 0 : static_cast<size_t>(4 * all) * sizeof(T)));
  const Workspace none(context.workspace(static_cast<size_t>(3 * n) * sizeof(T)));
  std::fill_n(none.as<T>(), 3 * n, T(0));
  const T *x = in<T>(tgates), *bias = tbias.defined() ? in<T>(tbias) : none.as<T>();
  T *y = out<T>(ty), *kept = out<T>(saved);
  job.over_samples(3, [&](int64_t first, int64_t last) {
    const T* h_before = in<T>(h);
    for (int64_t i = 0; i < job.steps; ++i) {
      const int64_t at = job.at(i) * all;
      T* gates = kept ? kept + 4 * at : passing.as<T>();
      w.multiply(last - first, h_before + first * n, n, false, gates + 4 * first * n, 4 * n);
      for (int64_t s = first * n; s < last * n; s += n)
        gru_step(x + 3 * (at + s), bias, h_before + s, gates + 4 * s, y + at + s, n);
      h_before = y + at;
    }
  });
}

template <class T>
void gru_grad(const Context& context, const Tensor& tdy, const Tensor& weight, const Tensor& h,
              const Tensor& ty, const Tensor& saved, Tensor& tdx, Tensor& tdgates, Tensor& tdh,
              bool reverse) {
  const Recurrence job(ty, reverse);
  if (job.empty()) return;
  const int64_t n = job.hidden, all = job.batch * n;
  const PackedColumns<T> w(context, 3 * n, n,
                           {in<T>(weight), weight.strides()[0], weight.strides()[1]});
  const T *dy = in<T>(tdy), *y = in<T>(ty), *gates = in<T>(saved);
  T *dx = out<T>(tdx), *dgates = out<T>(tdgates), *dh = out<T>(tdh);
  job.over_samples(3, [&](int64_t first, int64_t last) {
    std::fill(dh + first * n, dh + last * n, T(0));
    for (int64_t i = job.steps; i-- > 0;) {
      const int64_t at = job.at(i) * all;
      const T* h_before = i == 0 ? in<T>(h) : y + job.at(i - 1) * all;
      for (int64_t s = first * n; s < last * n; s += n)
        gru_step_grad(dy + at + s, gates + 4 * (at + s), h_before + s, dh + s, dx + 3 * (at + s),
                      dgates + 3 * (at + s), n);
      w.multiply(last - first, dgates + 3 * (at + first * n), 3 * n, true, dh + first * n, n);
    }
  });
}

void register_gru() {
  register_floats<&gru<float>, &gru<double>>("gru");
  register_floats<&gru_grad<float>, &gru_grad<double>>("gru_grad");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_gru);
#endif
