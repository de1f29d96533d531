// The last pass of a transform: what a window shows, as f32 planes.
#pragma once

#include <array>

#include "data/transform/byte_scale.h"
#include "data/transform/window.h"

namespace brim::data {

/// Writes (3, H, W) of the window's size.
void to_float(const Window& window, const std::array<ByteScale, 3>& scales, float* out);

}  // namespace brim::data
