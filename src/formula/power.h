// x^y. In f32 it is written without branches and computed in f64, so that it is right to 1 ulp, and
// exact where the result is a float. Coefficients: minimax fits (Remez) of 2^x on [-1/2, 1/2] and
// of 2 atanh(x) / (log(2) x) in x^2 on [0, 0.1716].
#pragma once

#include <brim/formula/math.h>

#include "formula/wide_math.h"

namespace brim::formula {
namespace detail {

BRIM_FORMULA float power(float x, float y) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double base = static_cast<double>(x), a = std::fabs(base), b = static_cast<double>(y);
  const auto [n, f] = around_one(a);  // 0, infinity and NaN are put right below
  const double s = f / (2.0 + f), z = s * s;
  double p = 3.4072803223919162e-01;
  p = p * z + 4.1167282569057773e-01;
  p = p * z + 5.7708358328720033e-01;
  p = p * z + 9.6179667333234991e-01;
  p = p * z + 2.8853900817900837e+00;
  double log2 = n + s * p;
  log2 = a == 0.0 ? -kInfinity : log2;
  log2 = a < kInfinity ? log2 : a;  // infinity and NaN
  const double size = std::fabs(b), product = b * log2;
  double t = a == 1.0 ? 0.0 : product;  // also where b is infinite
  t = t < -160.0 ? -160.0 : t;          // beyond all floats
  t = t > 140.0 ? 140.0 : t;
  const double shifted = t + kRound, r = t - (shifted - kRound);
  double e = 1.5201922872326579e-05;
  e = e * r + 1.5469291032692983e-04;
  e = e * r + 1.3333922558281322e-03;
  e = e * r + 9.6180272540888137e-03;
  e = e * r + 5.5504103534546510e-02;
  e = e * r + 2.4022651198153688e-01;
  e = e * r + 6.9314718072844561e-01;
  e = e * r + 9.9999999996168321e-01;
  const uint64_t exponent = std::bit_cast<uint64_t>(shifted) - std::bit_cast<uint64_t>(kRound);
  double result = e * std::bit_cast<double>((exponent + 1023) << 52);
  // Of negative numbers: floats from 2^24 on are even.
  const double small = size < 0x1p24 ? b : 0.0, near = small + kRound;
  const double fraction = small - (near - kRound);
  const uint64_t sign = (std::bit_cast<uint64_t>(near) << 63) & std::bit_cast<uint64_t>(base);
  const double of_whole = std::bit_cast<double>(std::bit_cast<uint64_t>(result) ^ sign);
  const double of_finite = a < kInfinity ? std::numeric_limits<double>::quiet_NaN() : result;
  const double of_fraction = base < 0.0 ? of_finite : result;
  result = fraction == 0.0 ? of_whole : of_fraction;
  result = b == b ? result : b;
  result = base == 1.0 ? 1.0 : result;
  result = b == 0.0 ? 1.0 : result;
  return static_cast<float>(result);
}

}  // namespace detail

template <class T>
BRIM_FORMULA T power(T x, T y) {
  if constexpr (kOwnMath<T>)
    return detail::power(x, y);
  else
    return std::pow(x, y);
}

}  // namespace brim::formula
