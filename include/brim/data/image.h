// Decoded pictures, rows from top to bottom: 8-bit samples and three channels (greyscale files are
// expanded), or what the file has (PixelImage).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace brim::data {

/// Height, width and channels of a picture. {0, 0, 0} stands for "not the same for all".
struct ImageShape {
  int channels = 0;  ///< 3 for RGB, 1 for grey
  int height = 0;    ///< pixels
  int width = 0;     ///< pixels

  bool operator==(const ImageShape&) const = default;  ///< whether all parts are equal
  int64_t bytes() const { return int64_t{channels} * height * width; }  ///< of 8-bit pixels
};

/// A picture that owns its pixels: `pixels[(y * width + x) * channels + c]`.
template <class T>
struct BasicImage {
  int width = 0;          ///< pixels
  int height = 0;         ///< pixels
  int channels = 0;       ///< 3 for RGB, 1 for grey
  std::vector<T> pixels;  ///< height x width x channels, row by row

  ImageShape shape() const { return {channels, height, width}; }  ///< its sizes
};

using Image = BasicImage<uint8_t>;     ///< with 8 bits a channel
using Image16 = BasicImage<uint16_t>;  ///< with 16 bits a channel

/// A picture of 8 or 16 bits and 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 channels (RGB and
/// alpha), as a file has them.
struct PixelImage {
  std::variant<Image, Image16> pixels = {};  ///< as the file has them

  int bits() const { return pixels.index() == 0 ? 8 : 16; }  ///< of each channel: 8 or 16
  /// Its sizes.
  ImageShape shape() const {
    return std::visit([](const auto& image) { return image.shape(); }, pixels);
  }
  /// The picture of samples T, empty where it had others. Its memory stays from call to call.
  template <class T>
  BasicImage<T>& make() {
    if (auto* const image = std::get_if<BasicImage<T>>(&pixels)) return *image;
    return pixels.emplace<BasicImage<T>>();
  }
};

/// Where the channels of a pixel lie: side by side (`hwc`) or in one plane each (`chw`).
enum class PixelOrder : uint8_t {
  hwc,  ///< interleaved: RGBRGB...
  chw   ///< plane by plane, as tensors have them
};

/// A picture that somebody else owns. `pixels` is null for "none".
template <class T>
struct BasicImageView {
  const T* pixels = nullptr;           ///< the first one; null: no picture
  ImageShape shape;                    ///< its sizes
  PixelOrder order = PixelOrder::hwc;  ///< how pixels lie there

  BasicImageView() = default;
  /// Of memory that outlives the view.
  BasicImageView(const T* data, ImageShape s, PixelOrder o) : pixels(data), shape(s), order(o) {}
  /// Throws ShapeError where the image has more or fewer pixels than its sizes say.
  BasicImageView(const BasicImage<T>& image);  // NOLINT

  explicit operator bool() const { return pixels != nullptr; }  ///< whether there is a picture
  /// Channel c of a pixel, unchecked.
  T at(int c, int y, int x) const {
    return order == PixelOrder::hwc ? pixels[(int64_t{y} * shape.width + x) * shape.channels + c]
                                    : pixels[(int64_t{c} * shape.height + y) * shape.width + x];
  }
};

using ImageView = BasicImageView<uint8_t>;     ///< with 8 bits a channel
using ImageView16 = BasicImageView<uint16_t>;  ///< with 16 bits a channel

/// The most pixels that a file may declare (about 11,500 x 11,500).
inline constexpr int64_t kMaxPixels = int64_t{1} << 27;

/// Decodes a JPEG or PNG file held in memory into RGB. `out` keeps its memory from call to call.
/// Greyscale, palette and CMYK are converted; an alpha channel is dropped; 16 bits become 8.
/// Throws FileError that begins with `name` when the bytes are no image, are corrupt or truncated
/// (a decoder's warning counts), or declare more than `max_pixels`.
void decode_image(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                  int64_t max_pixels = kMaxPixels);

/// The same with the channels and bits of the file: 16 bits from PNG alone, palettes as RGB, alpha
/// where there is transparency, inks (CMYK) as RGB.
void decode_pixels(std::span<const uint8_t> bytes, const std::string& name, PixelImage& out,
                   int64_t max_pixels = kMaxPixels);

/// Reads and decodes one file. Throws FileError.
Image load_image(const std::string& path);
/// The same in as many channels and bits as the file has. Throws FileError.
PixelImage load_pixels(const std::string& path);

/// True for names that end in .jpg, .jpeg or .png, in any case of letters.
bool has_image_extension(const std::string& name);

}  // namespace brim::data
