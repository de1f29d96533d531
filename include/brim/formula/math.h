// exp, log, sin, erf ... for formulas. In f32 they are written without branches, so that a loop
// over them is vectorised; in f64, and in CUDA code, they are those of the standard library. Errors
// are in units in the last place, over all finite arguments; tests/formula/math_test.cpp checks
// them. Coefficients of exp, log, sin and cos: S. Moshier, Cephes (netlib.org/cephes, single/); of
// erf: minimax fits (Remez) of erf(x) / x in x^2 on [0, 1] and of -log(erfc(x)) in x on [1, 4]; of
// atan2: one of atan(x) / x in x^2 on [0, 1]; of log1p_on_unit_interval: one of atanh(x) / x on [0,
// 1/3].
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <brim/formula/formula.h>

namespace brim::formula {

#if defined(__CUDACC__) || defined(BRIM_STANDARD_MATH)
template <class T>
inline constexpr bool kOwnMath = false;
#else
/// Whether T has brim's own functions below, or those of the standard library.
template <class T>
inline constexpr bool kOwnMath = std::is_same_v<T, float>;
#endif

namespace detail {

inline constexpr float kInf = std::numeric_limits<float>::infinity();

BRIM_FORMULA float from_bits(int32_t i) { return std::bit_cast<float>(i); }
BRIM_FORMULA int32_t to_bits(float x) { return std::bit_cast<int32_t>(x); }
/// 2^n for n in [-126, 127].
BRIM_FORMULA float power_of_two(int32_t n) { return from_bits((n + 127) << 23); }

/// x = n log(2) + r, |r| <= log(2) / 2; returns exp(r) - 1. |x| < 2^22.
BRIM_FORMULA float reduce_exp(float x, int32_t& n) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float shifted = x * 1.44269504088896341f + kRound;
  const float whole = shifted - kRound;
  n = to_bits(shifted) - to_bits(kRound);
  const float r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return r + r * r * p;
}

BRIM_FORMULA float exp(float x) {  // 1 ulp
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  int32_t n;
  const float e = 1.0f + reduce_exp(x, n);
  // Two factors, for results that overflow or are denormal.
  const int32_t half = n >> 1;
  return e * power_of_two(half) * power_of_two(n - half);
}

BRIM_FORMULA float expm1(float x) {  // 1.5 ulp
  float c = x < -20.0f ? -20.0f : x;
  c = c > 89.0f ? 89.0f : c;
  int32_t n;
  const float e = reduce_exp(c, n);
  const float half = power_of_two(n - 1);  // of the scale, which may be 2^128
  const float y = 2.0f * (half * e + (half - 0.5f));
  return n == 0 ? (x == 0.0f ? x : e) : y;  // x == 0: keeps the sign of zero
}

/// x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); returns log(1 + f) - f + f^2 / 2.
BRIM_FORMULA float reduce_log(float x, float& n, float& f) {
  const bool tiny = x < std::numeric_limits<float>::min();
  const float scaled = tiny ? x * 8388608.0f : x;
  // The mantissa in [sqrt(1/2), sqrt(2)).
  const int32_t bits = static_cast<int32_t>(static_cast<uint32_t>(to_bits(scaled)) - 0x3f3504f3u);
  const float m = from_bits((bits & 0x007fffff) + 0x3f3504f3);
  n = static_cast<float>((bits >> 23) - (tiny ? 23 : 0));
  f = m - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  return p * f * (f * f);
}

/// y, but for the x that have no finite logarithm.
BRIM_FORMULA float log_at_edges(float x, float y) {
  y = x < kInf ? y : x;  // infinity and NaN
  y = x == 0.0f ? -kInf : y;
  return x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : y;
}

BRIM_FORMULA float log(float x) {  // 1 ulp
  float n, f;
  const float p = reduce_log(x, n, f), z = f * f;
  const float y = p + n * -2.12194440e-4f - 0.5f * z;
  return log_at_edges(x, f + y + n * 0.693359375f);
}

/// log(x) / log(base), 1 ulp. Both parts are added in f64: powers of the base are exact.
BRIM_FORMULA float log_to_base(float x, double of_two, double of_e) {
  float n, f;
  const float p = reduce_log(x, n, f), rest = p - 0.5f * (f * f);
  const double y =
      static_cast<double>(n) * of_two + (static_cast<double>(f) + static_cast<double>(rest)) * of_e;
  return log_at_edges(x, static_cast<float>(y));
}
BRIM_FORMULA float log2(float x) { return log_to_base(x, 1, 1.44269504088896340736); }
BRIM_FORMULA float log10(float x) {
  return log_to_base(x, 0.30102999566398119521, 0.43429448190325182765);
}

BRIM_FORMULA float log1p(float x) {  // 2 ulp; the rounding error of 1 + x is put back
  const float u = 1.0f + x;
  const float y = log(u) + (x - (u - 1.0f)) / u;
  const bool special = !(u < kInf) || u <= 0.0f;
  return u == 1.0f ? x : special ? log(u) : y;
}

/// log(1 + x) for x in [0, 1], 2 ulp: 2 atanh(x / (2 + x)).
BRIM_FORMULA float log1p_on_unit_interval(float x) {
  const float s = x / (2.0f + x), z = s * s;
  float p = 2.817832601e-01f;
  p = p * z + 2.796060473e-01f;
  p = p * z + 4.002491014e-01f;
  p = p * z + 6.666631469e-01f;
  return 2.0f * s + s * (z * p);
}

BRIM_FORMULA float tanh(float x) {  // 2.5 ulp
  const float t = expm1(-2.0f * std::fabs(x));
  return std::copysign(-t / (2.0f + t), x);
}

BRIM_FORMULA float erf(float x) {  // 1.5 ulp
  const float a = std::fabs(x), z = x * x;
  float p = 7.853861462e-05f;
  p = p * z - 8.010193706e-04f;
  p = p * z + 5.188327748e-03f;
  p = p * z - 2.685381286e-02f;
  p = p * z + 1.128358543e-01f;
  p = p * z - 3.761262596e-01f;
  p = p * z + 1.283791671e-01f;         // the rest of 2 / sqrt(pi) is added as x, exactly
  const float c = a > 4.0f ? 4.0f : a;  // erf(4) rounds to 1
  float q = -1.855739101e-04f;
  q = q * c + 2.939606318e-03f;
  q = q * c - 2.180531435e-02f;
  q = q * c + 1.030373648e-01f;
  q = q * c + 6.382256746e-01f;
  q = q * c + 1.127040029e+00f;
  q = q * c + 3.537205339e-04f;
  int32_t n;
  const float e = 1.0f + reduce_exp(-q, n);
  const float large = std::copysign(1.0f - e * power_of_two(n), x);
  return a < 1.0f ? x + x * p : (a >= 1.0f ? large : x);
}

/// Beyond it sin and cos of a float are not exact here: formula/dual.h has those of all floats.
inline constexpr float kTrigLimit = 1.0e8f;

/// x = n pi/2 + r, |r| <= pi/4. The multiple is subtracted in f64, so r is right to the last bit.
BRIM_FORMULA float reduce_trig(float x, int32_t& n) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  const double wide = static_cast<double>(x);
  const double shifted = wide * 0.63661977236758134 + kRound;
  const double whole = shifted - kRound;
  n = static_cast<int32_t>(whole);
  // pi/2 in two parts; the first has 25 bits, so its product is exact (FreeBSD's k_rem_pio2).
  return static_cast<float>((wide - whole * 1.57079631090164184570e+00) -
                            whole * 1.58932547735281966916e-08);
}

BRIM_FORMULA float sin_or_cos(float r, int32_t quadrant) {
  const float z = r * r;
  float s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  float c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  const float y = (quadrant & 1) ? c : s;
  return (quadrant & 2) ? -y : y;
}

BRIM_FORMULA float sin(float x) {  // 1.5 ulp for |x| <= kTrigLimit
  int32_t n;
  const float r = reduce_trig(x, n);
  return x == 0.0f ? x : sin_or_cos(r, n);  // keeps the sign of zero
}

BRIM_FORMULA float cos(float x) {  // 1.5 ulp for |x| <= kTrigLimit
  int32_t n;
  const float r = reduce_trig(x, n);
  return sin_or_cos(r, n + 1);
}

/// The angle of the point (x, y), 1 ulp. In f64, where squares and quotients of floats are at ease.
BRIM_FORMULA float atan2(float y, float x) {
  const double a = static_cast<double>(x), b = static_cast<double>(y);
  const double width = std::fabs(a), height = std::fabs(b);
  const bool steep = height > width;
  const double large = steep ? height : width, small = steep ? width : height;
  double t = small / large;
  t = small == large ? 1.0 : t;  // both infinite
  t = large == 0.0 ? 0.0 : t;
  const double z = t * t;
  double p = 1.0911004557213957e-03;
  p = p * z - 7.1993303605178277e-03;
  p = p * z + 2.2274236090919827e-02;
  p = p * z - 4.4357348051305173e-02;
  p = p * z + 6.7160963995562997e-02;
  p = p * z - 8.7987668272091521e-02;
  p = p * z + 1.1054499733862115e-01;
  p = p * z - 1.4279159396557689e-01;
  p = p * z + 1.9999604617682282e-01;
  p = p * z - 3.3333323934695391e-01;
  p = p * z + 9.9999999962820263e-01;
  double angle = p * t;
  angle = steep ? 1.57079632679489661923 - angle : angle;
  angle = std::copysign(1.0, a) < 0.0 ? 3.14159265358979323846 - angle : angle;
  angle = width != width ? width : angle;
  angle = height != height ? height : angle;
  return static_cast<float>(std::copysign(angle, b));
}

/// Whether fmod(a, b) below is exact: |a / b| < 2^28. False where b is 0, true where one is NaN.
BRIM_FORMULA bool fmod_is_exact(float a, float b) {
  return !(std::fabs(a) >= 0x1p28f * std::fabs(b));
}

/// What is left of a by b, with the sign of a, exact where fmod_is_exact(a, b): the quotient
/// is then cut right, since one that is not whole lies 2^-24 / b or more from whole numbers, and
/// the product and the difference have no more digits than an f64.
BRIM_FORMULA float fmod(float a, float b) {
  constexpr double kRound = 4503599627370496.0;  // 2^52
  const double x = std::fabs(static_cast<double>(a)), y = std::fabs(static_cast<double>(b));
  const double quotient = x / y;
  const double nearest = (quotient + kRound) - kRound;
  const double whole = nearest > quotient ? nearest - 1.0 : nearest;
  const double left = quotient < 1.0 ? x : x - whole * y;  // b may be infinite
  return std::copysign(static_cast<float>(left), a);
}

}  // namespace detail

#define BRIM_MATH_FUNCTION(name) \
  template <class T>             \
  BRIM_FORMULA T name(T x) {     \
    if constexpr (kOwnMath<T>)   \
      return detail::name(x);    \
    else                         \
      return std::name(x);       \
  }
///@{
/// As in the standard library; errors of 1 to 2.5 ulp in f32 (tests/formula/math_test.cpp).
BRIM_MATH_FUNCTION(exp)
BRIM_MATH_FUNCTION(expm1)
BRIM_MATH_FUNCTION(log)
BRIM_MATH_FUNCTION(log1p)
BRIM_MATH_FUNCTION(log2)
BRIM_MATH_FUNCTION(log10)
BRIM_MATH_FUNCTION(tanh)
BRIM_MATH_FUNCTION(erf)
BRIM_MATH_FUNCTION(sin)
BRIM_MATH_FUNCTION(cos)
#undef BRIM_MATH_FUNCTION

/// log(1 + x) for x in [0, 1], 2 ulp in f32.
template <class T>
BRIM_FORMULA T log1p_on_unit_interval(T x) {
  if constexpr (kOwnMath<T>)
    return detail::log1p_on_unit_interval(x);
  else
    return std::log1p(x);
}
///@}
/// The angle of the point (x, y), 1 ulp in f32.
template <class T>
BRIM_FORMULA T atan2(T y, T x) {
  if constexpr (kOwnMath<T>)
    return detail::atan2(y, x);
  else
    return std::atan2(y, x);
}

/// 1 / (1 + exp(-x)), 2.5 ulp in f32; exp is only taken where it cannot overflow.
template <class T>
BRIM_FORMULA T sigmoid(T x) {
  const T e = exp(-std::fabs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

}  // namespace brim::formula
