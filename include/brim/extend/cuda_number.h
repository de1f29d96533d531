// Numbers in kernels: what an element is computed in, and how 16-bit floats become f32 and back.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include <brim/core/dtype.h>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace brim::extend::cuda {

/// Whether T is a float of 16 bits.
template <class T>
inline constexpr bool is_16_bit = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
/// What elements of type T are computed in: f32 for 16-bit floats, else T itself.
template <class T>
using Compute = std::conditional_t<is_16_bit<T>, float, T>;

/// An element as the type it is computed in.
template <class T>
__device__ inline Compute<T> widen(T x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
#if defined(__CUDACC__)
    return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
#else
    return static_cast<float>(x);
#endif
  } else if constexpr (std::is_same_v<T, Half>) {
#if defined(__CUDACC__)
    return __half2float(__ushort_as_half(x.bits));
#else
    return static_cast<float>(x);
#endif
  } else {
    return x;
  }
}

/// The way back; rounds to nearest even.
template <class T>
__device__ inline T narrow(Compute<T> x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
#if defined(__CUDACC__)
    T y;
    y.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
    return y;
#else
    return BFloat16(x);
#endif
  } else if constexpr (std::is_same_v<T, Half>) {
#if defined(__CUDACC__)
    T y;
    y.bits = __half_as_ushort(__float2half_rn(x));
    return y;
#else
    return Half(x);
#endif
  } else {
    return x;
  }
}

}  // namespace brim::extend::cuda
