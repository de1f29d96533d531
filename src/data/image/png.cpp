// PNG through libpng. Errors longjmp to a frame that holds only trivial objects (see jpeg.cpp).
// Colours are taken as stored (no gamma correction), as PIL and torchvision do.
#include "core/check.h"
#include "data/image/decode.h"

#if BRIM_HAVE_PNG

#include <png.h>

#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstring>

namespace brim::data {
namespace {

struct Session {
  png_structp codec = nullptr;
  png_infop info = nullptr;
  const uint8_t* data = nullptr;
  size_t left = 0;
  char message[160] = "";

  ~Session() { png_destroy_read_struct(&codec, &info, nullptr); }
};

void on_read(png_structp codec, png_bytep to, size_t count) {
  auto* session = static_cast<Session*>(png_get_io_ptr(codec));
  if (count > session->left) png_error(codec, "unexpected end of file");
  std::memcpy(to, session->data, count);
  session->data += count;
  session->left -= count;
}

[[noreturn]] void on_error(png_structp codec, png_const_charp text) {
  auto* session = static_cast<Session*>(png_get_error_ptr(codec));
  std::snprintf(session->message, sizeof session->message, "%s", text);
  png_longjmp(codec, 1);
}

void on_warning(png_structp, png_const_charp) {}

// What the samples of a file become.
enum class PngSamples : uint8_t { rgb, as_stored, classes };

// Reads the header. False with session.message set on failure.
bool start(Session& session) {
  if (setjmp(png_jmpbuf(session.codec))) return false;
  png_set_read_fn(session.codec, &session, on_read);
  png_set_user_limits(session.codec, 1 << 24, 1 << 24);
  png_set_chunk_malloc_max(session.codec, 8 << 20);
  png_set_chunk_cache_max(session.codec, 64);
  png_read_info(session.codec, session.info);
  return true;
}

// Asks for a conversion, after which the header has the channels and bits of the result.
bool convert(Session& session, PngSamples samples, int& passes) {
  if (setjmp(png_jmpbuf(session.codec))) return false;
  if (samples == PngSamples::classes)
    png_set_packing(session.codec);
  else
    png_set_expand(session.codec);
  if (samples == PngSamples::rgb) {
    png_set_scale_16(session.codec);
    png_set_gray_to_rgb(session.codec);
    png_set_strip_alpha(session.codec);
  } else if (std::endian::native == std::endian::little) {
    png_set_swap(session.codec);  // 16 bits
  }
  passes = png_set_interlace_handling(session.codec);
  png_read_update_info(session.codec, session.info);
  return true;
}

bool read_rows(Session& session, int passes, uint8_t* out, size_t row_bytes) {
  if (setjmp(png_jmpbuf(session.codec))) return false;
  const png_uint_32 height = png_get_image_height(session.codec, session.info);
  if (png_get_rowbytes(session.codec, session.info) != row_bytes)
    png_error(session.codec, "the rows are not as long as the header says");
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 y = 0; y < height; ++y) {
      png_read_row(session.codec, out + size_t{y} * row_bytes, nullptr);
    }
  }
  png_read_end(session.codec, nullptr);
  return true;
}

// A file whose header was read.
class PngFile {
 public:
  PngFile(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels)
      : name_(name) {
    session_.data = bytes.data();
    session_.left = bytes.size();
    session_.codec = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session_, on_error, on_warning);
    if (session_.codec != nullptr) session_.info = png_create_info_struct(session_.codec);
    if (session_.info == nullptr) throw std::bad_alloc();
    if (!start(session_)) damaged();
    shape_ = {channels(), static_cast<int>(png_get_image_height(session_.codec, session_.info)),
              static_cast<int>(png_get_image_width(session_.codec, session_.info))};
    constexpr int64_t kBitsPerByte = 8 * 1040;  // deflate makes at most 1032 bytes of one
    check_image_size(shape_.width, shape_.height, bytes.size(),
                     kBitsPerByte / (int64_t{bits()} * channels()), name, max_pixels);
  }

  int bits() const { return png_get_bit_depth(session_.codec, session_.info); }
  int channels() const { return png_get_channels(session_.codec, session_.info); }
  int colour() const { return png_get_color_type(session_.codec, session_.info); }

  void convert_to(PngSamples samples) {
    if (!convert(session_, samples, passes_)) damaged();
    shape_.channels = channels();
  }
  /// To be called once, behind convert_to().
  template <class T>
  void read(BasicImage<T>& out) {
    prepare_image(shape_, out);
    const size_t row_bytes =
        sizeof(T) * static_cast<size_t>(shape_.channels) * static_cast<size_t>(shape_.width);
    if (!read_rows(session_, passes_, reinterpret_cast<uint8_t*>(out.pixels.data()), row_bytes))
      damaged();
  }

 private:
  [[noreturn]] void damaged() const {
    raise<FileError>("{}: damaged or truncated PNG ({})", name_, session_.message);
  }

  Session session_;
  const std::string& name_;
  ImageShape shape_;
  int passes_ = 1;
};

}  // namespace

void decode_png(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                int64_t max_pixels) {
  PngFile file(bytes, name, max_pixels);
  file.convert_to(PngSamples::rgb);
  file.read(out);
}

void decode_png(std::span<const uint8_t> bytes, const std::string& name, PixelImage& out,
                int64_t max_pixels) {
  PngFile file(bytes, name, max_pixels);
  file.convert_to(PngSamples::as_stored);
  if (file.bits() == 16)
    file.read(out.make<uint16_t>());
  else
    file.read(out.make<uint8_t>());
}

void decode_mask(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                 int64_t max_pixels) {
  BRIM_CHECK(looks_like_png(bytes), FileError,
             "{}: no PNG; masks are grey or palette PNGs, whose values are classes", name);
  PngFile file(bytes, name, max_pixels);
  const bool one = file.colour() == PNG_COLOR_TYPE_GRAY || file.colour() == PNG_COLOR_TYPE_PALETTE;
  BRIM_CHECK(one && file.bits() <= 8, FileError,
             "{}: a PNG of {} bits and {} channels; masks have one channel or a palette, and at "
             "most 8 bits",
             name, file.bits(), file.channels());
  file.convert_to(PngSamples::classes);
  file.read(out);
}

std::vector<uint8_t> encode_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::vector<uint8_t> bytes(size);
  const int made =
      png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr);
  BRIM_CHECK(made != 0, FileError, "[data] {} x {} pixels cannot be written as PNG: {}",
             image.width, image.height, png.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace brim::data

#else

namespace brim::data {
namespace {
[[noreturn]] void refuse_png(const std::string& name) {
  raise<FileError>(
      "{}: this build of brim cannot read PNG; install libpng (libpng-dev) and rebuild", name);
}
}  // namespace
void decode_png(std::span<const uint8_t>, const std::string& name, Image&, int64_t) {
  refuse_png(name);
}
void decode_png(std::span<const uint8_t>, const std::string& name, PixelImage&, int64_t) {
  refuse_png(name);
}
void decode_mask(std::span<const uint8_t>, const std::string& name, Image&, int64_t) {
  refuse_png(name);
}
std::vector<uint8_t> encode_png(const Image&) {
  raise<FileError>(
      "[data] this build of brim cannot write PNG; install libpng (libpng-dev) and rebuild");
}
}  // namespace brim::data

#endif
