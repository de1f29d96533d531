// Optimizer steps on the CPU: one launch updates all parameters of a group, each number is read and
// written once. Threads split the numbers of all tensors together; every number is its own, so
// the split does not change the result.
#include "backend/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/optim.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <span>
#include <string>

#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/step-inl.h"
#include "backend/cpu/runtime/denormals.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/options/loss_scale.h"
#include "formula/optim.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using formula::StepParams;

template <class T, size_t N>
struct Row {
  T* p;
  const T* g;
  std::array<T*, N> s;
};

/// Numbers [begin, end) of one parameter, of any strides.
template <class F, class T>
void update(const F& f, Tensor& p, const Tensor& g, std::span<Tensor> states, int64_t begin,
            int64_t end) {
  constexpr size_t N = F::kStates;
  Row<T, N> row{static_cast<T*>(p.raw()), static_cast<const T*>(g.raw()), {}};
  bool dense = p.is_contiguous() && g.is_contiguous();
  for (size_t k = 0; k < N; ++k) {
    row.s[k] = static_cast<T*>(states[k].raw());
    dense = dense && states[k].is_contiguous();
  }
  if (dense) {
    row.p += begin;
    row.g += begin;
    for (T*& s : row.s) s += begin;
    step_run(f, row.p, row.g, row.s, end - begin);
    return;
  }
  std::array<Strides, N + 2> strides{p.strides(), g.strides()};
  for (size_t k = 0; k < N; ++k) strides[k + 2] = states[k].strides();
  const Loop<int{N + 2}> loop = make_loop<int{N + 2}>(p.shape(), strides);
  bool unit = true;  // the innermost run is dense in all of them
  for (size_t k = 0; k < N + 2; ++k) unit = unit && loop.stride[k][0] == 1;
  while (begin < end) {
    const int64_t n = std::min(loop.size[0] - begin % loop.size[0], end - begin);
    const auto at = loop.offsets(begin);
    Row<T, N> run{row.p + at[0], row.g + at[1], row.s};
    for (size_t k = 0; k < N; ++k) run.s[k] += at[k + 2];
    for (int64_t i = 0; i < n && !unit; ++i) {
      T s[N + 1];
      for (size_t k = 0; k < N; ++k) s[k] = run.s[k][i * loop.stride[k + 2][0]];
      f(run.p[i * loop.stride[0][0]], run.g[i * loop.stride[1][0]], s);
      for (size_t k = 0; k < N; ++k) run.s[k][i * loop.stride[k + 2][0]] = s[k];
    }
    if (unit) step_run(f, run.p, run.g, run.s, n);
    begin += n;
  }
}

/// states[i * kStates + k] is the k-th state of parameter i.
template <class T, class F>
void step(const Context&, std::span<Tensor> params, std::span<const Tensor> grads,
          std::span<Tensor> states, const StepParams& k) {
  F f;
  f.k = k;
  int64_t total = 0;
  for (const Tensor& p : params) total += p.numel();
  parallel_for(total, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    const FlushDenormals guard;
    int64_t first = 0;  // of this parameter, in the numbering of all
    for (size_t i = 0; i < params.size() && first < end; ++i) {
      const int64_t last = first + params[i].numel();
      const int64_t from = std::max(begin, first), to = std::min(end, last);
      if (from < to) {
        const std::span<Tensor> own = states.subspan(i * F::kStates, F::kStates);
        update<F, T>(f, params[i], grads[i], own, from - first, to - first);
      }
      first = last;
    }
  });
}

template <class T, class F>
void guarded_step(const Context& context, std::span<Tensor> params, std::span<const Tensor> grads,
                  std::span<Tensor> states, const Tensor& found_inf, Tensor& skipped,
                  const StepParams& k) {
  float& count = *static_cast<float*>(skipped.raw());
  if (*static_cast<const float*>(found_inf.raw()) != 0)
    count += 1;
  else
    step<T, F>(context, params, grads, states, k.without(static_cast<double>(count)));
}

template <class T, class F>
void register_step() {
  static const auto& guarded = *new std::string(backend::guarded_step_name(F::kName));
  backend::register_kernel(F::kName, DeviceKind::cpu, dtype_of<T>, &step<T, F>);
  backend::register_kernel(guarded.c_str(), DeviceKind::cpu, dtype_of<T>, &guarded_step<T, F>);
}

template <class T, class... F>
void register_list(formula::List<F...>) {
  (register_step<T, F>(), ...);
}

void register_optim() {
  register_list<float>(formula::OptimFormulas{});
  register_list<double>(formula::OptimFormulas{});
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_optim);
#endif
