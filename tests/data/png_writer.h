// PNG files of any colour type and number of bits, for tests.
#pragma once

#include <png.h>

#include <cstdint>
#include <vector>

namespace brim::data::tests {

/// Samples side by side, as `colour` (PNG_COLOR_TYPE_...) has them, each below 2^bits; the palette
/// of a file that needs one is grey. `transparent`: a tRNS chunk for number or grey 0.
inline std::vector<uint8_t> png_of(const std::vector<uint16_t>& samples, int width, int height,
                                   int colour, int bits, bool transparent = false) {
  std::vector<uint8_t> bytes;
  png_structp codec = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(codec);
  const auto append = [](png_structp from, png_bytep data, size_t size) {
    auto* const to = static_cast<std::vector<uint8_t>*>(png_get_io_ptr(from));
    to->insert(to->end(), data, data + size);
  };
  png_set_write_fn(codec, &bytes, append, nullptr);
  png_set_IHDR(codec, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), bits,
               colour, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (colour == PNG_COLOR_TYPE_PALETTE) {
    std::vector<png_color> palette;
    for (int i = 0; i < 1 << bits; ++i) {
      const auto level = static_cast<png_byte>(255 - i);
      palette.push_back({level, level, level});
    }
    png_set_PLTE(codec, info, palette.data(), static_cast<int>(palette.size()));
  }
  if (transparent) {
    png_byte alpha = 0;
    png_color_16 grey{};
    png_set_tRNS(codec, info, &alpha, 1, &grey);
  }
  png_write_info(codec, info);
  png_set_packing(codec);
  const size_t row_samples = samples.size() / static_cast<size_t>(height);
  std::vector<uint8_t> row;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (bits == 16) row.push_back(static_cast<uint8_t>(samples[i] >> 8));
    row.push_back(static_cast<uint8_t>(samples[i] & 255));
    if ((i + 1) % row_samples != 0) continue;
    png_write_row(codec, row.data());
    row.clear();
  }
  png_write_end(codec, info);
  png_destroy_write_struct(&codec, &info);
  return bytes;
}

}  // namespace brim::data::tests
