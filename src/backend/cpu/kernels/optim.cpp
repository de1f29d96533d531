// Optimizer steps on the CPU: one launch updates all parameters of a group, each number is read and
// written once, those of 16 bits in f32 in between. Threads split the numbers of all tensors
// together; every number is its own, so the split does not change the result.
#include "backend/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/optim.cpp"
#include <hwy/foreach_target.h>
#include "backend/cpu/runtime/small_baseline-inl.h"

#include <span>
#include <string>
#include <type_traits>

#include "backend/cpu/elementwise/convert.h"
#include "backend/cpu/elementwise/loop.h"
#include "backend/cpu/elementwise/step-inl.h"
#include "backend/cpu/runtime/denormals.h"
#include "backend/cpu/runtime/isa.h"
#include "backend/options/loss_scale.h"
#include "backend/options/master_weights.h"
#include "formula/optim.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

using formula::StepParams;

constexpr int64_t kStepBlock = 512;

/// How parameters stored as T are updated.
template <class F, class T, bool kMasters>
struct Layout {
  static constexpr bool kIs16Bits = sizeof(T) == 2;
  static constexpr size_t kStates = F::kStates + kMasters;  ///< the last is the master
  using State = std::conditional_t<kMasters, float, T>;
  using Compute = std::conditional_t<kIs16Bits, float, T>;
  using States = std::array<State*, kStates>;
};

/// The master, or the parameter where that is not the master rounded (master_weights.h).
template <class T>
HWY_INLINE void follow(const T* p, float* masters, int64_t n) {
  T rounded[kStepBlock];
  float as_stored[kStepBlock], value[kStepBlock];
  convert_run(masters, rounded, n);
  convert_run(rounded, as_stored, n);
  convert_run(p, value, n);
  for (int64_t i = 0; i < n; ++i) masters[i] = as_stored[i] == value[i] ? masters[i] : value[i];
}

/// Dense numbers of 16 bits, a block after the other in the L1 cache.
template <class F, class T, bool kMasters, class L = Layout<F, T, kMasters>>
void step_blocks(const F& f, T* p, const T* g, typename L::States s, int64_t n) {
  constexpr size_t N = F::kStates;
  float grad[kStepBlock], value[kStepBlock], state[N + 1][kStepBlock];
  for (int64_t done = 0; done < n; done += kStepBlock) {
    const int64_t m = std::min(kStepBlock, n - done);
    std::array<float*, N> states;
    float* values = value;
    convert_run(g + done, grad, m);
    if constexpr (kMasters) {
      for (size_t k = 0; k < N; ++k) states[k] = s[k] + done;
      values = s[N] + done;
      follow(p + done, values, m);
    } else {
      convert_run(p + done, values, m);
      for (size_t k = 0; k < N; ++k) convert_run(s[k] + done, states[k] = state[k], m);
    }
    step_run(f, values, grad, states, m);
    convert_run(values, p + done, m);
    if constexpr (!kMasters)
      for (size_t k = 0; k < N; ++k) convert_run(state[k], s[k] + done, m);
  }
}

/// One number; state k is at s[k][at[k]].
template <class F, class T, bool kMasters, class L = Layout<F, T, kMasters>>
HWY_INLINE void step_one(const F& f, T& p, T g, const typename L::States& s, const int64_t* at) {
  using C = typename L::Compute;
  constexpr size_t N = F::kStates;
  C value = static_cast<C>(p), state[N + 1];
  for (size_t k = 0; k < N; ++k) state[k] = static_cast<C>(s[k][at[k]]);
  if constexpr (kMasters) {
    const float master = s[N][at[N]];
    if (static_cast<float>(T(master)) == value) value = master;
  }
  f(value, static_cast<C>(g), state);
  for (size_t k = 0; k < N; ++k) s[k][at[k]] = static_cast<typename L::State>(state[k]);
  if constexpr (kMasters) s[N][at[N]] = value;
  p = static_cast<T>(value);
}

template <class F, class T, bool kMasters>
void step_dense(const F& f, T* p, const T* g, const typename Layout<F, T, kMasters>::States& s,
                int64_t n) {
  if constexpr (Layout<F, T, kMasters>::kIs16Bits)
    step_blocks<F, T, kMasters>(f, p, g, s, n);
  else
    step_run(f, p, g, s, n);
}

/// Numbers [begin, end) of one parameter, of any strides.
template <class F, class T, bool kMasters>
void update(const F& f, Tensor& p, const Tensor& g, std::span<Tensor> states, int64_t begin,
            int64_t end) {
  using L = Layout<F, T, kMasters>;
  constexpr size_t N = L::kStates;
  T* const to = static_cast<T*>(p.raw());
  const T* const from = static_cast<const T*>(g.raw());
  typename L::States s{};
  bool dense = p.is_contiguous() && g.is_contiguous();
  for (size_t k = 0; k < N; ++k) {
    s[k] = static_cast<typename L::State*>(states[k].raw());
    dense = dense && states[k].is_contiguous();
  }
  if (dense) {
    for (auto& state : s) state += begin;
    step_dense<F, T, kMasters>(f, to + begin, from + begin, s, end - begin);
    return;
  }
  std::array<Strides, N + 2> strides{p.strides(), g.strides()};
  for (size_t k = 0; k < N; ++k) strides[k + 2] = states[k].strides();
  const Loop<int{N + 2}> loop = make_loop<int{N + 2}>(p.shape(), strides);
  bool unit = true;  // the innermost run is dense in all of them
  for (size_t k = 0; k < N + 2; ++k) unit = unit && loop.stride[k][0] == 1;
  while (begin < end) {
    const int64_t n = std::min(loop.size[0] - begin % loop.size[0], end - begin);
    auto at = loop.offsets(begin);
    begin += n;
    if (unit) {
      typename L::States run = s;
      for (size_t k = 0; k < N; ++k) run[k] += at[k + 2];
      step_dense<F, T, kMasters>(f, to + at[0], from + at[1], run, n);
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      step_one<F, T, kMasters>(f, to[at[0]], from[at[1]], s, at.data() + 2);
      for (size_t k = 0; k < N + 2; ++k) at[k] += loop.stride[k][0];
    }
  }
}

/// states[i * n + k] is the k-th of n states of parameter i.
template <class T, class F, bool kMasters>
void step(const Context&, std::span<Tensor> params, std::span<const Tensor> grads,
          std::span<Tensor> states, const StepParams& k) {
  constexpr size_t kStates = Layout<F, T, kMasters>::kStates;
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
        const std::span<Tensor> own = states.subspan(i * kStates, kStates);
        update<F, T, kMasters>(f, params[i], grads[i], own, from - first, to - first);
      }
      first = last;
    }
  });
}

template <class T, class F, bool kMasters>
void guarded_step(const Context& context, std::span<Tensor> params, std::span<const Tensor> grads,
                  std::span<Tensor> states, const Tensor& found_inf, Tensor& skipped,
                  const StepParams& k) {
  float& count = *static_cast<float*>(skipped.raw());
  if (*static_cast<const float*>(found_inf.raw()) != 0)
    count += 1;
  else
    step<T, F, kMasters>(context, params, grads, states, k.without(static_cast<double>(count)));
}

template <class T, class F, bool kMasters>
void register_step() {
  static const auto& name =
      *new std::string(kMasters ? backend::master_step_name(F::kName) : F::kName);
  static const auto& guarded = *new std::string(backend::guarded_step_name(name.c_str()));
  backend::register_kernel(name.c_str(), DeviceKind::cpu, dtype_of<T>, &step<T, F, kMasters>);
  backend::register_kernel(guarded.c_str(), DeviceKind::cpu, dtype_of<T>,
                           &guarded_step<T, F, kMasters>);
}

template <class T, bool kMasters, class... F>
void register_list(formula::List<F...>) {
  (register_step<T, F, kMasters>(), ...);
}

void register_optim() {
  register_list<float, false>(formula::OptimFormulas{});
  register_list<double, false>(formula::OptimFormulas{});
  register_list<Half, false>(formula::OptimFormulas{});
  register_list<Half, true>(formula::OptimFormulas{});
  register_list<BFloat16, false>(formula::OptimFormulas{});
  register_list<BFloat16, true>(formula::OptimFormulas{});
}

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
BRIM_REGISTER_FOR_CPU(register_optim);
#endif
