// Decoded pictures: 8-bit samples, three channels (greyscale files are expanded), rows from top to
// bottom.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace brim::data {

/// Height, width and channels of a picture. {0, 0, 0} stands for "not the same for all".
struct ImageShape {
  int channels = 0;
  int height = 0;
  int width = 0;

  bool operator==(const ImageShape&) const = default;
  int64_t bytes() const { return int64_t{channels} * height * width; }
};

/// A picture that owns its pixels: `pixels[(y * width + x) * channels + c]`.
struct Image {
  int width = 0;
  int height = 0;
  int channels = 0;
  std::vector<uint8_t> pixels;

  ImageShape shape() const { return {channels, height, width}; }
};

/// Where the channels of a pixel lie: side by side (`hwc`) or in one plane each (`chw`).
enum class PixelOrder : uint8_t { hwc, chw };

/// A picture that somebody else owns. `pixels` is null for "none".
struct ImageView {
  const uint8_t* pixels = nullptr;
  ImageShape shape;
  PixelOrder order = PixelOrder::hwc;

  ImageView() = default;
  ImageView(const uint8_t* data, ImageShape s, PixelOrder o) : pixels(data), shape(s), order(o) {}
  /// Throws ShapeError where the image has more or fewer pixels than its sizes say.
  ImageView(const Image& image);  // NOLINT

  explicit operator bool() const { return pixels != nullptr; }
  uint8_t at(int c, int y, int x) const {
    return order == PixelOrder::hwc ? pixels[(int64_t{y} * shape.width + x) * shape.channels + c]
                                    : pixels[(int64_t{c} * shape.height + y) * shape.width + x];
  }
};

/// The most pixels that a file may declare (about 11,500 x 11,500).
inline constexpr int64_t kMaxPixels = int64_t{1} << 27;

/// Decodes a JPEG or PNG file held in memory into RGB. `out` keeps its memory from call to call.
/// Greyscale, palette and CMYK are converted; an alpha channel is dropped; 16 bits become 8.
/// Throws FileError that begins with `name` when the bytes are no image, are corrupt or truncated
/// (a decoder's warning counts), or declare more than `max_pixels`.
void decode_image(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                  int64_t max_pixels = kMaxPixels);

/// Reads and decodes one file. Throws FileError.
Image load_image(const std::string& path);

/// True for names that end in .jpg, .jpeg or .png, in any case of letters.
bool has_image_extension(const std::string& name);

}  // namespace brim::data
