// The steps of an LSTM on the CPU and their gradients: at each step one product with packed
// weights, then all gates of a sample in one loop.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/lstm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/recurrent/lstm_step-inl.h"
#include "backend/cpu/recurrent/recurrent-inl.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/types.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

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
