// A Normalize by channels.
#pragma once

#include <brim/data/transform.h>

#include <vector>

namespace brim::data {

struct ChannelScale {
  float mean = 0, std = 1;
};

/// That of each channel. Throws ValueError where it has neither one number nor as many as channels.
std::vector<ChannelScale> channel_scales(const Normalize& normalize, int channels);

}  // namespace brim::data
