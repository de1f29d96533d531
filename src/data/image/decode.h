// The decoders behind decode_image, one per format. Each throws FileError that begins with `name`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <brim/data/image.h>

namespace brim::data {

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                 int64_t max_pixels);
void decode_png(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                int64_t max_pixels);

/// Checks a declared size against the limit and against what `file_bytes` could hold at all. No
/// format here packs more than ~8,300 pixels into a byte.
void check_image_size(int64_t width, int64_t height, size_t file_bytes, const std::string& name,
                      int64_t max_pixels);

/// Makes room for an RGB picture.
void prepare_image(int width, int height, Image& out);

/// A grey or RGB picture of any order as an RGB one. `out` keeps its memory from call to call.
void copy_as_rgb(const ImageView& from, Image& out);

/// The bytes of a PNG file of a grey or RGB picture. Throws FileError where libpng is missing.
std::vector<uint8_t> encode_png(const Image& image);

}  // namespace brim::data
