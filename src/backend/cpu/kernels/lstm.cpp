// The steps of an LSTM on the CPU and their gradients: at each step one product with packed
// weights, then all gates of a sample in one loop.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/lstm.cpp"
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

/// One sample's step. x: what the input gives the gates i, f, g, o of n units each; gates: what the
/// hidden state gives them, then their values.
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

template <class T>
void lstm(const Context& context, const Tensor& tgates, const Tensor& weight, const Tensor& h,
          const Tensor& c, Tensor& ty, Tensor& tcells, Tensor& saved, bool reverse) {
  const Recurrence job(ty, reverse);
  if (job.empty()) return;
  const int64_t n = job.hidden, all = job.batch * n;
  const PackedColumns<T> w(context, n, 4 * n,
                           {in<T>(weight), weight.strides()[1], weight.strides()[0]});
  const Workspace passing(
      context.workspace(saved.defined() ? 0 : static_cast<size_t>(4 * all) * sizeof(T)));
  const T* x = in<T>(tgates);
  T *y = out<T>(ty), *cells = out<T>(tcells), *kept = out<T>(saved);
  job.over_samples(4, [&](int64_t first, int64_t last) {
    const T *h_before = in<T>(h), *c_before = in<T>(c);
    for (int64_t i = 0; i < job.steps; ++i) {
      const int64_t at = job.at(i) * all;
      T* gates = kept ? kept + 4 * at : passing.as<T>();
      w.multiply(last - first, h_before + first * n, n, false, gates + 4 * first * n, 4 * n);
      for (int64_t s = first * n; s < last * n; s += n)
        lstm_step(x + 4 * (at + s), c_before + s, gates + 4 * s, cells + at + s, y + at + s, n);
      h_before = y + at;
      c_before = cells + at;
    }
  });
}

template <class T>
void lstm_grad(const Context& context, const Tensor& tdy, const Tensor& tdcells,
               const Tensor& weight, const Tensor& tc, const Tensor& tcells, const Tensor& saved,
               Tensor& tdgates, Tensor& tdh, Tensor& tdc, bool reverse) {
  const Recurrence job(tdy, reverse);
  if (job.empty()) return;
  const int64_t n = job.hidden, all = job.batch * n;
  const PackedColumns<T> w(context, 4 * n, n,
                           {in<T>(weight), weight.strides()[0], weight.strides()[1]});
  const Workspace none(context.workspace(static_cast<size_t>(n) * sizeof(T)));
  std::fill_n(none.as<T>(), n, T(0));
  const T *dy = in<T>(tdy), *dcells = in<T>(tdcells), *gates = in<T>(saved);
  const T *c = in<T>(tc), *cells = in<T>(tcells);
  T *dgates = out<T>(tdgates), *dh = out<T>(tdh), *dc = out<T>(tdc);
  job.over_samples(4, [&](int64_t first, int64_t last) {
    std::fill(dh + first * n, dh + last * n, T(0));
    std::fill(dc + first * n, dc + last * n, T(0));
    for (int64_t i = job.steps; i-- > 0;) {
      const int64_t at = job.at(i) * all;
      const T* c_before = i == 0 ? c : cells + job.at(i - 1) * all;
      for (int64_t s = first * n; s < last * n; s += n)
        lstm_step_grad(dy + at + s, dcells ? dcells + at + s : none.as<T>(), gates + 4 * (at + s),
                       c_before + s, cells + at + s, dh + s, dc + s, dgates + 4 * (at + s), n);
      w.multiply(last - first, dgates + 4 * (at + first * n), 4 * n, false, dh + first * n, n);
    }
  });
}

void register_lstm() {
  register_floats<&lstm<float>, &lstm<double>>("lstm");
  register_floats<&lstm_grad<float>, &lstm_grad<double>>("lstm_grad");
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_lstm);
#endif
