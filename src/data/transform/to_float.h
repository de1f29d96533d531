// The last pass of a transform: what a window shows, as f32 planes.
#pragma once

#include <array>

#include "data/transform/window.h"

namespace brim::data {

/// The value of each byte, per channel.
using ByteTable = std::array<std::array<float, 256>, 3>;

/// Writes (C, H, W) of the window's size.
void to_float(const Window& window, const ByteTable& table, float* out);

}  // namespace brim::data
