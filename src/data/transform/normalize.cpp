#include "data/transform/normalize.h"

#include <cmath>

#include "core/check.h"

namespace brim::data {

std::vector<ChannelScale> channel_scales(const Normalize& normalize, int channels) {
  const auto& [mean, std] = normalize;
  const auto count = static_cast<size_t>(channels);
  const auto fits = [count](const std::vector<float>& of) {
    return of.size() == 1 || of.size() == count;
  };
  BRIM_CHECK(
      fits(mean) && fits(std), ValueError,
      "[Normalize] {} means and {} stds; pictures of {} channels need one of each for all, or "
      "{}",
      mean.size(), std.size(), channels, channels);
  std::vector<ChannelScale> scales;
  for (size_t c = 0; c < count; ++c) {
    const ChannelScale scale{mean[mean.size() == 1 ? 0 : c], std[std.size() == 1 ? 0 : c]};
    BRIM_CHECK(std::isfinite(scale.mean) && std::isfinite(scale.std) && scale.std > 0, ValueError,
               "[Normalize] mean {} and std {} of channel {}: the std must be above 0", scale.mean,
               scale.std, c);
    scales.push_back(scale);
  }
  return scales;
}

}  // namespace brim::data
