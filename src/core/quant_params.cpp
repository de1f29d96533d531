#include <brim/core/quant_params.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace brim {

QuantParams QuantParams::of_range(double min, double max) {
  BRIM_CHECK(std::isfinite(min) && std::isfinite(max) && min <= max, ValueError,
             "[quantize] a range from {} to {}", min, max);
  min = std::min(min, 0.0);
  max = std::max(max, 0.0);
  constexpr double kLeast = 1e-30;  // its reciprocal is a number
  const double scale = (max - min) / 255;
  if (scale < kLeast) return {};
  const QuantParams params{
      .scale = static_cast<float>(scale),
      .zero_point = static_cast<int32_t>(std::clamp(std::nearbyint(-min / scale), 0.0, 255.0))};
  params.check();
  return params;
}

void QuantParams::check() const {
  BRIM_CHECK(std::isnormal(scale) && scale > 0 && std::isnormal(1 / scale), ValueError,
             "[quantize] a scale of {}", scale);
  BRIM_CHECK(zero_point >= 0 && zero_point <= 255, ValueError,
             "[quantize] a zero point of {}; it must be in 0..255", zero_point);
}

}  // namespace brim
