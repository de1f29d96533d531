// The decoders behind decode_image, one per format. Each throws FileError that begins with `name`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <brim/data/image.h>
#include "data/image/jpeg.h"

namespace brim::data {

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                 int64_t max_pixels, JpegGrey grey = JpegGrey::as_rgb);
void decode_png(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                int64_t max_pixels);
void decode_png(std::span<const uint8_t> bytes, const std::string& name, PixelImage& out,
                int64_t max_pixels);

/// A PNG whose numbers are classes: of one channel or with a palette, of at most 8 bits. `out` has
/// the numbers as they are stored. Throws FileError for other files.
void decode_mask(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                 int64_t max_pixels = kMaxPixels);

/// What stands behind the last dot of a name, in small letters: "png".
std::string lower_extension(const std::string& name);

/// True if the first bytes are those of a PNG.
bool looks_like_png(std::span<const uint8_t> bytes);

/// Checks a declared size against the limit and against what `file_bytes` could hold at all, where
/// the format packs no more than so many pixels into a byte.
void check_image_size(int64_t width, int64_t height, size_t file_bytes, int64_t pixels_per_byte,
                      const std::string& name, int64_t max_pixels);

/// Makes room for a picture.
template <class T>
void prepare_image(const ImageShape& shape, BasicImage<T>& out) {
  out.width = shape.width;
  out.height = shape.height;
  out.channels = shape.channels;
  out.pixels.resize(static_cast<size_t>(shape.bytes()));
}

/// A grey or RGB picture of any order as an RGB one. `out` keeps its memory from call to call.
void copy_as_rgb(const ImageView& from, Image& out);

/// The bytes of a PNG file of a grey or RGB picture. Throws FileError where libpng is missing.
std::vector<uint8_t> encode_png(const Image& image);

}  // namespace brim::data
