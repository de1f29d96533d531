// Elementwise kernels from formulas: y = f(in...) over any strides, or, where all operands lie in
// one order without gaps (row-major, nhwc) and are aligned, in accesses of 16 bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <brim/formula/formula.h>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/number.cuh"
#include "backend/cuda/elementwise/loop.cuh"
#include "backend/kernel.h"

namespace brim::cuda {

/// `Width` neighbouring elements, moved by one access.
template <class T, int Width>
struct alignas(Width * sizeof(T)) Pack {
  T at[Width];
};

template <class Out, class F, class... In>
__device__ inline Out apply(const F& f, In... in) {
  using Result = decltype(f(widen(in)...));
  if constexpr (is_16_bit<Out>)
    return narrow<Out>(static_cast<float>(f(widen(in)...)));
  else
    return static_cast<Out>(static_cast<Result>(f(widen(in)...)));
}

/// `Count` packs of a thread, all on their way at once; kThreads packs apart.
template <class T, int Width, int Count>
struct Packs {
  Pack<T, Width> at[Count];

  __device__ Packs(const T* x, int64_t first, int64_t end) {
#pragma unroll
    for (int u = 0; u < Count; ++u)
      if (first + u * kThreads < end)
        at[u] = reinterpret_cast<const Pack<T, Width>*>(x)[first + u * kThreads];
  }
};

/// Blocks that a multiprocessor should hold at once; 0: as the compiler thinks best, which spills
/// registers in formulas of f64.
template <class Out>
constexpr int kDenseBlocks = std::is_same_v<Out, double> ? 2 : 0;

template <int Width, int Count, class F, class Out, class... In>
__global__ void __launch_bounds__(kThreads, kDenseBlocks<Out>)
    dense_kernel(F f, int64_t count, Out* y, const In*... in) {
  begin_kernel();
  using Result = Pack<Out, Width>;
  constexpr int64_t kOfBlock = kThreads * Count;
  const int64_t packs = count / Width;
  for (int64_t at = blockIdx.x * kOfBlock + threadIdx.x; at < packs; at += gridDim.x * kOfBlock) {
    const auto run = [&](const auto&... loaded) {
#pragma unroll
      for (int u = 0; u < Count; ++u) {
        if (at + u * kThreads >= packs) break;
        Result result;
#pragma unroll
        for (int k = 0; k < Width; ++k) result.at[k] = apply<Out>(f, loaded.at[u].at[k]...);
        reinterpret_cast<Result*>(y)[at + u * kThreads] = result;
      }
    };
    run(Packs<In, Width, Count>(in, at, packs)...);
  }
  for (int64_t i = packs * Width + first_index(); i < count; i += grid_size())
    y[i] = apply<Out>(f, in[i]...);
}

template <class F, class Out, size_t... K, class... In>
__device__ inline void strided_element(const F& f, std::index_sequence<K...>, const int64_t* at,
                                       Out* y, const In*... in) {
  y[at[0]] = apply<Out>(f, in[at[K + 1]]...);
}

template <class F, class Out, class... In>
__global__ void strided_kernel(F f, DeviceLoop<1 + sizeof...(In)> loop, Out* y, const In*... in) {
  begin_kernel();
  for (int64_t i = first_index(); i < loop.numel; i += grid_size()) {
    int64_t at[1 + sizeof...(In)];
    loop.offsets(i, at);
    strided_element(f, std::make_index_sequence<sizeof...(In)>{}, at, y, in...);
  }
}

template <class T>
T* data(const Tensor& t) {
  return static_cast<T*>(t.raw());
}

/// Null where an optional tensor is left out.
template <class T>
T* optional(const Tensor& t) {
  return t.defined() ? data<T>(t) : nullptr;
}

inline bool is_aligned(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

/// y = f(in...) with broadcasting; f is called with the operands' compute types.
template <class Out, class... In, class F, class... Tensors>
void elementwise(const Context& context, const F& f, Tensor& y, const Tensors&... in) {
  if (y.numel() == 0) return;
  constexpr size_t kLargest = std::max({sizeof(Out), sizeof(In)...});
  constexpr int kWidth = static_cast<int>(16 / kLargest);
  // Two packs keep enough bytes on their way; of f64, formulas take too many registers for that.
  constexpr int kCount = kLargest < 8 ? 2 : 1;
  const auto loop = backend::make_loop(y, in...);
  if (loop.all_contiguous() && is_aligned(y.raw(), kWidth * sizeof(Out)) &&
      (is_aligned(in.raw(), kWidth * sizeof(In)) && ...)) {
    launch(context, &dense_kernel<kWidth, kCount, F, Out, In...>,
           card_grid(context, y.numel() / kWidth, kThreads * kCount), f, y.numel(), data<Out>(y),
           data<const In>(in)...);
    return;
  }
  launch(context, &strided_kernel<F, Out, In...>, grid_for(loop.numel), f,
         DeviceLoop<1 + sizeof...(In)>(loop), data<Out>(y), data<const In>(in)...);
}

template <class F, class In, class Out>
void unary(const Context& context, const Tensor& x, Tensor& y, const formula::Params& params) {
  elementwise<Out, In>(context, F(params), y, x);
}
template <class F, class In, class Out>
void binary(const Context& context, const Tensor& a, const Tensor& b, Tensor& y,
            const formula::Params& params) {
  elementwise<Out, In, In>(context, F(params), y, a, b);
}

/// Registers formulas of one or two numbers for elements of type In; Out may be bool.
template <class In, class Out = In, class... F>
void register_unary(formula::List<F...>) {
  (backend::register_kernel(F::kName, DeviceKind::cuda, dtype_of<In>, &unary<F, In, Out>), ...);
}
template <class In, class Out = In, class... F>
void register_binary(formula::List<F...>) {
  (backend::register_kernel(F::kName, DeviceKind::cuda, dtype_of<In>, &binary<F, In, Out>), ...);
}

}  // namespace brim::cuda
