// Grey, RGB and alpha into each other.
#pragma once

#include <brim/data/image.h>

#include <limits>
#include <variant>

#include "data/image/decode.h"

namespace brim::data {

/// Brightness of a pixel (ITU-R BT.601), as PIL's mode L has it.
template <class T>
T luma(const T* rgb) {
  return static_cast<T>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

/// The picture with 1 to 4 channels: grey becomes RGB and RGB grey, alpha is dropped, or added as
/// opaque.
template <class T>
void convert_channels(const BasicImage<T>& from, int channels, BasicImage<T>& out) {
  prepare_image({channels, from.height, from.width}, out);
  const bool colour = from.channels >= 3, alpha = from.channels % 2 == 0;
  const T* in = from.pixels.data();
  for (auto to = out.pixels.begin(); to != out.pixels.end(); in += from.channels) {
    for (int c = 0; c < (channels >= 3 ? 3 : 0); ++c) *to++ = in[colour ? c : 0];
    if (channels < 3) *to++ = colour ? luma(in) : in[0];
    if (channels % 2 == 0) *to++ = alpha ? in[from.channels - 1] : std::numeric_limits<T>::max();
  }
}

inline void convert_channels(const PixelImage& from, int channels, PixelImage& out) {
  std::visit([&]<class T>(
                 const BasicImage<T>& image) { convert_channels(image, channels, out.make<T>()); },
             from.pixels);
}

}  // namespace brim::data
