// Picks the decoder by the first bytes of a file, never by its name.
#include "data/image/decode.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "core/check.h"
#include "data/file.h"
#include "data/image/jpeg.h"

namespace brim::data {

template <class T>
BasicImageView<T>::BasicImageView(const BasicImage<T>& image)
    : pixels(image.pixels.data()), shape(image.shape()) {
  const int64_t samples = shape.bytes(), has = static_cast<int64_t>(image.pixels.size());
  BRIM_CHECK(samples == has, ShapeError,
             "an Image of width {}, height {} and {} channels with {} bytes of pixels; expected {}",
             image.width, image.height, image.channels, has * sizeof(T), samples * sizeof(T));
}

template struct BasicImageView<uint8_t>;
template struct BasicImageView<uint16_t>;

void check_image_size(int64_t width, int64_t height, size_t file_bytes, int64_t pixels_per_byte,
                      const std::string& name, int64_t max_pixels) {
  if (width <= 0 || height <= 0)
    raise<FileError>("{}: the header declares {} x {} pixels", name, width, height);
  if (width > max_pixels / height) {
    raise<FileError>("{}: {} x {} pixels are more than the limit of {}", name, width, height,
                     max_pixels);
  }
  if (width * height / pixels_per_byte > static_cast<int64_t>(file_bytes)) {
    raise<FileError>("{}: the header declares {} x {} pixels but the file has only {} bytes", name,
                     width, height, file_bytes);
  }
}

void copy_as_rgb(const ImageView& from, Image& out) {
  const ImageShape& shape = from.shape;
  prepare_image({3, shape.height, shape.width}, out);
  const int64_t count = int64_t{shape.height} * shape.width;
  const uint8_t* const pixels = from.pixels;
  uint8_t* to = out.pixels.data();
  if (shape.channels == 3 && from.order == PixelOrder::hwc) {
    std::copy_n(pixels, 3 * count, to);
    return;
  }
  const int64_t plane = shape.channels == 3 ? count : 0;
  for (int64_t p = 0; p < count; ++p, to += 3)
    for (int64_t c = 0; c < 3; ++c) to[c] = pixels[c * plane + p];
}

bool looks_like_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

bool looks_like_png(std::span<const uint8_t> bytes) {
  static constexpr uint8_t kPng[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return bytes.size() >= 8 && std::memcmp(bytes.data(), kPng, 8) == 0;
}

namespace {

[[noreturn]] void refuse_file(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.empty()) raise<FileError>("{}: empty file; expected a JPEG or PNG image", name);
  raise<FileError>("{}: not an image; expected JPEG or PNG", name);
}

std::vector<uint8_t> bytes_of(const std::string& path) {
  std::vector<uint8_t> bytes;
  read_file(path, bytes);
  return bytes;
}

}  // namespace

void decode_image(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                  int64_t max_pixels) {
  if (looks_like_jpeg(bytes)) return decode_jpeg(bytes, name, out, max_pixels);
  if (looks_like_png(bytes)) return decode_png(bytes, name, out, max_pixels);
  refuse_file(bytes, name);
}

void decode_pixels(std::span<const uint8_t> bytes, const std::string& name, PixelImage& out,
                   int64_t max_pixels) {
  if (looks_like_jpeg(bytes))
    return decode_jpeg(bytes, name, out.make<uint8_t>(), max_pixels, JpegGrey::kept);
  if (looks_like_png(bytes)) return decode_png(bytes, name, out, max_pixels);
  refuse_file(bytes, name);
}

Image load_image(const std::string& path) {
  Image image;
  decode_image(bytes_of(path), path, image);
  return image;
}

PixelImage load_pixels(const std::string& path) {
  PixelImage image;
  decode_pixels(bytes_of(path), path, image);
  return image;
}

std::string lower_extension(const std::string& name) {
  const size_t dot = name.find_last_of('.');
  if (dot == std::string::npos) return "";
  std::string extension = name.substr(dot + 1);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

bool has_image_extension(const std::string& name) {
  const std::string extension = lower_extension(name);
  return extension == "jpg" || extension == "jpeg" || extension == "png";
}

}  // namespace brim::data
