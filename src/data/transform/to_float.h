// The last pass of a transform: what a window shows, as planes of f32 or of bytes, or as classes.
#pragma once

#include <cstdint>
#include <span>

#include "data/transform/byte_scale.h"
#include "data/transform/window.h"

namespace brim::data {

/// Writes (C, H, W) of the window's size, with a scale for each channel.
void to_float(const Window& window, std::span<const ByteScale> scales, float* out);
void to_float(const Window16& window, std::span<const WordScale> scales, float* out);

/// The same of an RGB picture as bytes.
void to_planes(const Window& window, uint8_t* out);

/// The one channel of a mask, (H, W).
void to_classes(const Window& mask, int64_t* out);

}  // namespace brim::data
