// Random numbers by the formulas of formula/philox.h: the same as on the CPU for the same key.
// normal is computed with the device's sin, cos and log, and may differ in the last digit.
#include "backend/cuda/elementwise/cast.cuh"
#include "backend/cuda/elementwise/elementwise.cuh"
#include "backend/cuda/graph/graph_parameter.cuh"
#include "backend/cuda/kernels/sort.cuh"
#include "backend/cuda/runtime/fault.cuh"
#include "backend/options/random_range.h"
#include "backend/types.h"
#include "formula/philox.h"

namespace brim::cuda {
namespace {

using backend::Drawn;
using formula::kPerBlock;
using formula::Params;

/// y[i] = rule(i, number i); Rule::block makes the numbers of a block of the counter. `packed`:
/// those of a block are stored at once.
template <class T, class Rule>
__global__ void fill_blocks_kernel(T* y, int64_t n, GraphParameter<RandomKey> key_parameter,
                                   Rule rule, bool packed) {
  begin_kernel();
  const RandomKey key = key_parameter.get();
  using D = Drawn<T>;
  constexpr int kCount = kPerBlock<D>;
  for (int64_t j = first_index(); j * kCount < n; j += grid_size()) {
    D drawn[kCount];
    Rule::block(key, static_cast<uint64_t>(j), drawn);
    const int64_t at = j * kCount;
    if (packed && at + kCount <= n) {
      Pack<T, kCount> all;
#pragma unroll
      for (int i = 0; i < kCount; ++i) all.at[i] = rule(at + i, drawn[i]);
      reinterpret_cast<Pack<T, kCount>*>(y)[j] = all;
    } else {
      for (int i = 0; i < kCount; ++i)
        if (at + i < n) y[at + i] = rule(at + i, drawn[i]);
    }
  }
}

template <class T, class Rule>
void fill_blocks(const Context& context, Tensor& y, const RandomKey& key, const Rule& rule) {
  if (y.numel() == 0) return;
  launch(context, &fill_blocks_kernel<T, Rule>, grid_for(y.numel() / kPerBlock<Drawn<T>> + 1),
         data<T>(y), y.numel(), graph_parameter(key), rule,
         is_aligned(y.raw(), sizeof(Pack<T, kPerBlock<Drawn<T>>>)));
}

/// start + width * u, each step rounded as on the CPU, as T.
template <class T>
__device__ T scaled(double start, double width, Drawn<T> u) {
  const double v = __dadd_rn(start, __dmul_rn(width, static_cast<double>(u)));
  return narrow<T>(static_cast<Compute<T>>(v));
}

template <class T>
struct Uniform {
  using D = Drawn<T>;
  double low, width;
  T last;
  __device__ static void block(const RandomKey& key, uint64_t j, D* out) {
    formula::uniform_block(key, j, out);
  }
  __device__ T operator()(int64_t, D u) const {
    const T v = scaled<T>(low, width, u);
    return widen(v) > widen(last) ? last : v;
  }
};

template <class T>
struct Normal {
  using D = Drawn<T>;
  double mean, deviation;
  __device__ static void block(const RandomKey& key, uint64_t j, D* out) {
    formula::normal_block(key, j, out);
  }
  __device__ T operator()(int64_t, D v) const { return scaled<T>(mean, deviation, v); }
};

template <class T>
struct Bernoulli {
  using D = Drawn<T>;
  const T* probability;
  Fault* fault;
  __device__ static void block(const RandomKey& key, uint64_t j, D* out) {
    formula::uniform_block(key, j, out);
  }
  __device__ T operator()(int64_t i, D u) const {
    const D p = widen(probability[i]);
    if (!(p >= 0 && p <= 1))
      report(fault, {.kind = FaultKind::probability, .position = i, .number = p});
    return narrow<T>(u < p ? Compute<T>(1) : Compute<T>(0));
  }
};

template <class T>
void uniform(const Context& context, Tensor& y, const RandomKey& key, const Params& p) {
  const backend::UniformRange<T> range(p.a, p.b);
  fill_blocks<T>(context, y, key, Uniform<T>{p.a, p.b - p.a, range.last});
}
template <class T>
void normal(const Context& context, Tensor& y, const RandomKey& key, const Params& p) {
  fill_blocks<T>(context, y, key, Normal<T>{p.a, p.b});
}
template <class T>
void bernoulli(const Context& context, const Tensor& p, Tensor& y, const RandomKey& key) {
  fill_blocks<T>(context, y, key, Bernoulli<T>{data<const T>(p), fault_of(context.device().index)});
}

/// The high half of a 128-bit product maps 64 random bits to the range.
template <class T>
__global__ void randint_kernel(T* y, int64_t n, GraphParameter<RandomKey> key_parameter,
                               uint64_t low, uint64_t range) {
  begin_kernel();
  const RandomKey key = key_parameter.get();
  for (int64_t i = first_index(); i < n; i += grid_size()) {
    const uint64_t bits = formula::random_bits(key, static_cast<uint64_t>(i));
    const int64_t v = static_cast<int64_t>(low + __umul64hi(bits, range));
    y[i] = element<T>(v);
  }
}

template <class T>
void randint(const Context& context, Tensor& y, const RandomKey& key, int64_t low, int64_t high) {
  if (y.numel() == 0) return;
  const uint64_t from = static_cast<uint64_t>(low), range = static_cast<uint64_t>(high) - from;
  launch(context, &randint_kernel<T>, grid_for(y.numel()), data<T>(y), y.numel(),
         graph_parameter(key), from, range);
}

struct RandomOrder {
  GraphParameter<RandomKey> key;
  __device__ WideKey operator()(int64_t, int64_t i) const {
    return {formula::random_bits(key.get(), static_cast<uint64_t>(i)), static_cast<uint64_t>(i)};
  }
};

template <class T>
__global__ void positions_kernel(const WideKey* keys, T* y, int64_t n) {
  begin_kernel();
  for (int64_t i = first_index(); i < n; i += grid_size()) y[i] = static_cast<T>(keys[i].position);
}

/// Sorts 0..n-1 by random keys.
template <class T>
void randperm(const Context& context, Tensor& y, const RandomKey& key) {
  const int64_t n = y.numel();
  if (n == 0) return;
  const Workspace workspace =
      context.workspace(static_cast<size_t>(sort_scratch(1, n)) * sizeof(WideKey));
  const WideKey* keys =
      sort_keys(context, RandomOrder{graph_parameter(key)}, workspace.as<WideKey>(), 1, n);
  launch(context, &positions_kernel<T>, grid_for(n), keys, data<T>(y), n);
}

const bool registered =
    backend::for_each_type(
        backend::Floats{},
        []<class T>(std::type_identity<T>) {
          backend::register_kernel("uniform", DeviceKind::cuda, dtype_of<T>, &uniform<T>);
          backend::register_kernel("normal", DeviceKind::cuda, dtype_of<T>, &normal<T>);
          backend::register_kernel("bernoulli", DeviceKind::cuda, dtype_of<T>, &bernoulli<T>);
        }) &&
    backend::for_each_type(backend::AllTypes{},
                           []<class T>(std::type_identity<T>) {
                             backend::register_kernel("randint", DeviceKind::cuda, dtype_of<T>,
                                                      &randint<T>);
                           }) &&
    backend::register_kernel("randperm", DeviceKind::cuda, DType::i64, &randperm<int64_t>) &&
    backend::register_kernel("randperm", DeviceKind::cuda, DType::i32, &randperm<int32_t>);

}  // namespace
}  // namespace brim::cuda
