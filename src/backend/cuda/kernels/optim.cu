// Optimizer steps: one launch updates as many parameters of a group as its table holds; the table
// of their addresses is an argument of the kernel. Numbers of 16 bits are updated in f32; where
// they have masters (backend/options/master_weights.h), the last of their states.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <type_traits>

#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/graph/graph_parameter.cuh"
#include "backend/options/loss_scale.h"
#include "backend/options/master_weights.h"
#include "backend/types.h"
#include "formula/optim.h"

namespace brim::cuda {
namespace {

using formula::StepParams;

constexpr int64_t kPerThread = 4, kPerBlock = kThreads * kPerThread;

/// The numbers of a step as they are.
struct Always {
  __device__ bool skips() const { return false; }
  __device__ StepParams numbers(const StepParams& k) const { return k; }
};

/// Those of a step that is left out where gradients overflowed (backend/options/loss_scale.h).
struct IfFinite {
  const float* found_inf;
  float* skipped;
  __device__ bool skips() const { return *found_inf != 0; }
  __device__ StepParams numbers(const StepParams& k) const {
    return k.without(static_cast<double>(*skipped));
  }
};

/// What a rule's parameters, stored as T, have beside them.
template <class Rule, class T, bool kHasMasters>
struct Layout {
  using F = Rule;
  using Number = T;
  using State = std::conditional_t<kHasMasters, float, T>;
  static constexpr bool kMasters = kHasMasters;
  static constexpr int kStates = F::kStates + kMasters;
};

/// Parameters of one launch. By default as many as 4 KiB of arguments hold.
template <class L, int Most = 3800 / (8 * (L::kStates + 5))>
struct Table {
  using T = typename L::Number;
  static constexpr int kMax = Most;
  int count = 0;
  T* p[kMax];
  const T* g[kMax];
  typename L::State* s[L::kStates + 1][kMax];
  int64_t numel[kMax];
  int64_t end[kMax];  ///< the first block that no longer belongs to it
};

template <class L>
using States = typename L::State * [L::kStates + 1];

template <class L, class T = typename L::Number>
__device__ inline void update(const typename L::F& f, T& p, T g, const States<L>& s, int64_t at) {
  constexpr int kOwn = L::F::kStates;
  Compute<T> value = widen(p), state[kOwn + 1];
  for (int k = 0; k < kOwn; ++k) state[k] = widen(s[k][at]);
  if constexpr (L::kMasters) {
    const float master = s[kOwn][at];
    if (widen(narrow<T>(master)) == value) value = master;
  }
  f(value, widen(g), state);
  for (int k = 0; k < kOwn; ++k) s[k][at] = narrow<typename L::State>(state[k]);
  if constexpr (L::kMasters) s[kOwn][at] = value;
  p = narrow<T>(value);
}

/// A block updates kPerBlock neighbouring numbers of one parameter.
template <class L, class Guard>
__global__ void dense_step_kernel(GraphParameter<StepParams> numbers, Guard guard, Table<L> table) {
  begin_kernel();
  if (guard.skips()) return;
  using T = typename L::Number;
  typename L::F f;
  f.k = guard.numbers(numbers.get());
  const int64_t block = blockIdx.x;
  int low = 0, high = table.count - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (block < table.end[middle])
      high = middle;
    else
      low = middle + 1;
  }
  const int64_t begin = (block - (low > 0 ? table.end[low - 1] : 0)) * kPerBlock;
  T* const p = table.p[low];
  const T* const g = table.g[low];
  States<L> s = {};
  for (int k = 0; k < L::kStates; ++k) s[k] = table.s[k][low];
#pragma unroll
  for (int64_t k = 0; k < kPerThread; ++k) {
    const int64_t i = begin + k * kThreads + threadIdx.x;
    if (i < table.numel[low]) update<L>(f, p[i], g[i], s, i);
  }
}

/// One parameter of any strides. Operands: the parameter, its gradient, the states.
template <class L, class Guard>
__global__ void strided_step_kernel(GraphParameter<StepParams> numbers, Guard guard,
                                    DeviceLoop<L::kStates + 2> loop, Table<L, 1> table) {
  begin_kernel();
  if (guard.skips()) return;
  typename L::F f;
  f.k = guard.numbers(numbers.get());
  for (int64_t i = first_index(); i < loop.numel; i += grid_size()) {
    int64_t at[L::kStates + 2];
    loop.offsets(i, at);
    States<L> s = {};
    for (int k = 0; k < L::kStates; ++k) s[k] = table.s[k][0] + at[k + 2];
    update<L>(f, table.p[0][at[0]], table.g[0][at[1]], s, 0);
  }
}

/// All of them lie in memory in one dense order.
bool dense_alike(const Tensor& p, const Tensor& g, std::span<Tensor> states) {
  const auto alike = [&](const Tensor& t) {
    return t.strides() == p.strides() || (p.is_contiguous() && t.is_contiguous());
  };
  return (p.is_contiguous() || p.is_contiguous(MemoryFormat::nhwc)) && alike(g) &&
         std::all_of(states.begin(), states.end(), alike);
}

/// Collects parameters and launches the kernel when the table is full.
template <class L, class Guard>
class Step {
  using T = typename L::Number;

 public:
  Step(const Context& context, const StepParams& params, Guard guard)
      : context_(context), numbers_(graph_parameter(params)), guard_(guard) {}

  void add(Tensor& p, const Tensor& g, std::span<Tensor> states) {
    if (p.numel() == 0) return;
    if (!dense_alike(p, g, states)) return strided(p, g, states);
    const int64_t before = table_.count > 0 ? table_.end[table_.count - 1] : 0;
    enter(table_, p, g, states);
    table_.end[table_.count - 1] = before + (p.numel() + kPerBlock - 1) / kPerBlock;
    if (table_.count == table_.kMax) flush();
  }
  void flush() {
    if (table_.count == 0) return;
    const Grid grid{dim3(static_cast<unsigned>(table_.end[table_.count - 1])), dim3(kThreads)};
    launch(context_, &dense_step_kernel<L, Guard>, grid, numbers_, guard_, table_);
    table_.count = 0;
  }

 private:
  template <int Most>
  static void enter(Table<L, Most>& table, Tensor& p, const Tensor& g, std::span<Tensor> states) {
    const int i = table.count++;
    table.p[i] = data<T>(p);
    table.g[i] = data<const T>(g);
    for (size_t k = 0; k < states.size(); ++k) table.s[k][i] = data<typename L::State>(states[k]);
    table.numel[i] = p.numel();
  }
  void strided(Tensor& p, const Tensor& g, std::span<Tensor> states) {
    std::array<Strides, L::kStates + 2> strides{p.strides(), g.strides()};
    for (size_t k = 0; k < states.size(); ++k) strides[k + 2] = states[k].strides();
    const DeviceLoop<L::kStates + 2> loop(backend::make_loop<L::kStates + 2>(p.shape(), strides));
    Table<L, 1> one;
    enter(one, p, g, states);
    launch(context_, &strided_step_kernel<L, Guard>, grid_for(loop.numel), numbers_, guard_, loop,
           one);
  }

  const Context& context_;
  GraphParameter<StepParams> numbers_;
  Guard guard_;
  Table<L> table_;
};

/// states[i * n + k] is the k-th of n states of parameter i.
template <class L, class Guard>
void update_all(const Context& context, std::span<Tensor> params, std::span<const Tensor> grads,
                std::span<Tensor> states, const StepParams& k, Guard guard) {
  Step<L, Guard> all(context, k, guard);
  for (size_t i = 0; i < params.size(); ++i)
    all.add(params[i], grads[i], states.subspan(i * L::kStates, L::kStates));
  all.flush();
}

template <class L>
void step(const Context& context, std::span<Tensor> params, std::span<const Tensor> grads,
          std::span<Tensor> states, const StepParams& k) {
  update_all<L>(context, params, grads, states, k, Always{});
}

__global__ void count_skipped(const float* found_inf, float* skipped) {
  begin_kernel();
  if (*found_inf != 0) *skipped += 1;
}

template <class L>
void guarded_step(const Context& context, std::span<Tensor> params, std::span<const Tensor> grads,
                  std::span<Tensor> states, const Tensor& found_inf, Tensor& skipped,
                  const StepParams& k) {
  const IfFinite guard{data<const float>(found_inf), data<float>(skipped)};
  update_all<L>(context, params, grads, states, k, guard);
  launch(context, &count_skipped, Grid{dim3(1), dim3(1)}, guard.found_inf, guard.skipped);
}

template <class L>
void register_step() {
  constexpr const char* kName = L::F::kName;
  static const auto& name =
      *new std::string(L::kMasters ? backend::master_step_name(kName) : kName);
  static const auto& guarded = *new std::string(backend::guarded_step_name(name.c_str()));
  constexpr DType dtype = dtype_of<typename L::Number>;
  backend::register_kernel(name.c_str(), DeviceKind::cuda, dtype, &step<L>);
  backend::register_kernel(guarded.c_str(), DeviceKind::cuda, dtype, &guarded_step<L>);
}

template <class T, class... F>
void register_list(formula::List<F...>) {
  (register_step<Layout<F, T, false>>(), ...);
  if constexpr (sizeof(T) == 2) (register_step<Layout<F, T, true>>(), ...);
}
const bool registered = backend::for_each_type(
    backend::Floats{},
    []<class T>(std::type_identity<T>) { register_list<T>(formula::OptimFormulas{}); });

}  // namespace
}  // namespace brim::cuda
