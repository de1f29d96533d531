// The part of the standard library and of CUDA's headers that formulas are made of, in the place of
// headers that NVRTC does not have: what `#include <cmath>` and the like find there. Everything is
// device code (-default-device).
#pragma once

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned;
using uint64_t = unsigned long;

namespace std {

using ::int32_t, ::int64_t, ::uint8_t, ::uint16_t, ::uint32_t, ::uint64_t;
using size_t = decltype(sizeof(0));

// <type_traits>
template <bool kValue>
struct bool_constant {
  static constexpr bool value = kValue;
};
template <class T>
struct type_identity {
  using type = T;
};
template <bool kFirst, class A, class B>
struct conditional {
  using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
  using type = B;
};
template <bool kFirst, class A, class B>
using conditional_t = typename conditional<kFirst, A, B>::type;
template <class A, class B>
inline constexpr bool is_same_v = false;
template <class T>
inline constexpr bool is_same_v<T, T> = true;
template <class T, class... Of>
inline constexpr bool is_one_of_v = (is_same_v<T, Of> || ...);
template <class T>
inline constexpr bool is_floating_point_v = is_one_of_v<T, float, double>;
template <class T>
inline constexpr bool is_integral_v =
    is_one_of_v<T, bool, char, signed char, unsigned char, short, unsigned short, int, unsigned,
                long, unsigned long, long long, unsigned long long>;
template <class T>
inline constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;
template <class T>
inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);
template <class T>
T&& declval() noexcept;
template <class F, class... Args>
inline constexpr bool is_invocable_v = requires {
  declval<F>()(declval<Args>()...);
};

// <bit>, <cstring>
template <class To, class From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}
int memcmp(const void* a, const void* b, size_t bytes);  // nobody calls it

// <limits>: integers' are asked for by no formula
template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  static constexpr float min() { return 1.17549435082228750797e-38f; }
  static constexpr float max() { return 3.40282346638528859812e+38f; }
  static constexpr float infinity() { return bit_cast<float>(0x7f800000); }
  static constexpr float quiet_NaN() { return bit_cast<float>(0x7fc00000); }
};

// <cmath>: CUDA's own functions
using ::copysign, ::cos, ::erf, ::exp, ::expm1, ::fabs, ::log, ::log10, ::log1p, ::log2, ::pow,
    ::sin, ::sqrt, ::tanh;

// What brim/core/dtype.h names beside Half and BFloat16
template <class T>
struct complex;
struct string_view {
  const char* text;
  constexpr string_view(const char* t) : text(t) {}
};

}  // namespace std

// <cuda_fp16.h>, <cuda_bf16.h>: conversions, which are instructions. PTX ISA, "cvt".
struct __half {
  unsigned short bits;
};
struct __nv_bfloat16 {
  unsigned short bits;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline float __half2float(__half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
inline __half __float2half_rn(float x) {
  __half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  __nv_bfloat16 y;
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else  // as cuda_bf16.h rounds there
  const unsigned bits = __float_as_uint(x);
  const unsigned rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  y.bits = static_cast<unsigned short>(x == x ? rounded : 0x7fff);
#endif
  return y;
}
