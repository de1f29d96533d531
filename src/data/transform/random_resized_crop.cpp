// Part and size of a RandomResizedCrop (see random_resized_crop.h).
#include "data/transform/random_resized_crop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace brim::data {

Box choose_part(const RandomResizedCrop& step, int width, int height, KeyedRandom& random) {
  const double area = static_cast<double>(width) * height;
  const double lowest = std::log(step.ratio[0]), highest = std::log(step.ratio[1]);
  const auto between = [&](double low, double high) { return low + random.unit() * (high - low); };
  constexpr int kTries = 10;
  for (int i = 0; i < kTries; ++i) {
    const double wanted = area * between(step.scale[0], step.scale[1]);
    const double ratio = std::exp(between(lowest, highest));
    const auto wide = std::nearbyint(std::sqrt(wanted * ratio));
    const auto tall = std::nearbyint(std::sqrt(wanted / ratio));
    if (wide < 1 || tall < 1 || wide > width || tall > height) continue;
    const int w = static_cast<int>(wide), h = static_cast<int>(tall);
    const int y = random.uniform(0, height - h), x = random.uniform(0, width - w);
    return {x, y, w, h};
  }
  const double ratio = static_cast<double>(width) / height;
  int w = width, h = height;
  if (ratio < step.ratio[0]) h = static_cast<int>(std::nearbyint(w / step.ratio[0]));
  if (ratio > step.ratio[1]) w = static_cast<int>(std::nearbyint(h * step.ratio[1]));
  w = std::clamp(w, 1, width), h = std::clamp(h, 1, height);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

int choose_eighths(const RandomResizedCrop& step, const Box& part) {
  const int64_t height = step.height, width = step.width == 0 ? step.height : step.width;
  for (const int eighths : {1, 2, 4}) {
    if (int64_t{part.width} * eighths >= 8 * width && int64_t{part.height} * eighths >= 8 * height)
      return eighths;
  }
  return 8;
}

}  // namespace brim::data
