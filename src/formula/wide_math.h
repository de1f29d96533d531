// log, sin and cos in f64 where random numbers need them: without branches and without conversions
// between f64 and 64-bit integers, so that a loop over them is vectorised; in CUDA code they are
// those of the standard library. Coefficients: FreeBSD's e_log.c, k_sin.c and k_cos.c.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include <brim/formula/formula.h>

namespace brim::formula {

/// A word as f64.
BRIM_FORMULA double to_double(uint32_t word) {
#if defined(__CUDACC__) || defined(BRIM_STANDARD_MATH)
  return static_cast<double>(word);
#else
  return std::bit_cast<double>(0x4330000000000000u | uint64_t{word}) - 0x1p52;
#endif
}

/// x = 2^exponent (1 + rest), where sqrt(1/2) <= 1 + rest < sqrt(2): as frexp, but around 1.
struct AroundOne {
  double exponent, rest;
};
/// Of x above 0 that is neither denormal nor infinite.
BRIM_FORMULA AroundOne around_one(double x) {
  constexpr uint64_t kOneBits = 0x3ff0000000000000u, kSqrtHalfBits = 0x3fe6a09e667f3bcdu;
  const uint64_t bits = std::bit_cast<uint64_t>(x) + (kOneBits - kSqrtHalfBits);
  return {std::bit_cast<double>(0x4330000000000000u | (bits >> 52)) - (0x1p52 + 1023),
          std::bit_cast<double>((bits & 0x000fffffffffffffu) + kSqrtHalfBits) - 1};
}

/// log(x) for x in [2^-1022, 1], 1 ulp.
BRIM_FORMULA double log_on_unit_interval(double x) {
#if defined(__CUDACC__) || defined(BRIM_STANDARD_MATH)
  return std::log(x);
#else
  const auto [n, f] = around_one(x);
  const double s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  double p = 1.479819860511658591e-01;
  p = p * z + 1.531383769920937332e-01;
  p = p * z + 1.818357216161805012e-01;
  p = p * z + 2.222219843214978396e-01;
  p = p * z + 2.857142874366239149e-01;
  p = p * z + 3.999999999940941908e-01;
  p = p * z + 6.666666666666735130e-01;
  const double rest = s * (half + p * z) + n * 1.90821492927058770002e-10;
  return n * 6.93147180369123816490e-01 - ((half - rest) - f);
#endif
}

/// sin and cos of 2 pi v, v in [0, 1): whole quarters are taken off exactly.
BRIM_FORMULA void sin_cos_2pi(double v, double& sin, double& cos) {
#if defined(__CUDACC__) || defined(BRIM_STANDARD_MATH)
  const double angle = 6.283185307179586477 * v;
  sin = std::sin(angle);
  cos = std::cos(angle);
#else
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = 4 * v + kRound;
  const uint64_t quarter = std::bit_cast<uint64_t>(shifted);  // in its last two bits
  const double x = (4 * v - (shifted - kRound)) * 1.57079632679489661923, z = x * x;
  double s = 1.58969099521155010221e-10;
  s = s * z - 2.50507602534068634195e-08;
  s = s * z + 2.75573137070700676789e-06;
  s = s * z - 1.98412698298579493134e-04;
  s = s * z + 8.33333333332248946124e-03;
  s = s * z - 1.66666666666666324348e-01;
  s = x + x * (z * s);
  double c = -1.13596475577881948265e-11;
  c = c * z + 2.08757232129817482790e-09;
  c = c * z - 2.75573143513906633035e-07;
  c = c * z + 2.48015872894767294178e-05;
  c = c * z - 1.38888888888741095749e-03;
  c = c * z + 4.16666666666666019037e-02;
  const double half = 0.5 * z, near = 1 - half;
  c = near + (((1 - near) - half) + z * (z * c));
  const bool odd = (quarter & 1) != 0;
  const double along = odd ? s : c, across = odd ? c : s;
  cos = std::bit_cast<double>(std::bit_cast<uint64_t>(along) ^ (((quarter + 1) & 2) << 62));
  sin = std::bit_cast<double>(std::bit_cast<uint64_t>(across) ^ ((quarter & 2) << 62));
#endif
}

}  // namespace brim::formula
