// The last pass of a transform: what a window shows, as planes of f32 or of bytes.
#pragma once

#include <array>

#include "data/transform/byte_scale.h"
#include "data/transform/window.h"

namespace brim::data {

/// The same as bytes.
void to_planes(const Window& window, uint8_t* out);

/// Writes (3, H, W) of the window's size.
void to_float(const Window& window, const std::array<ByteScale, 3>& scales, float* out);

}  // namespace brim::data
