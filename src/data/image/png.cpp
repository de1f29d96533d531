// PNG through libpng. Errors longjmp to a frame that holds only trivial objects (see jpeg.cpp).
// Colours are taken as stored (no gamma correction), as PIL and torchvision do.
#include "core/check.h"
#include "data/image/decode.h"

#if BRIM_HAVE_PNG

#include <png.h>

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

// Reads the header and asks for 8-bit RGB. False with session.message set on failure.
bool start(Session& session) {
  if (setjmp(png_jmpbuf(session.codec))) return false;
  png_set_read_fn(session.codec, &session, on_read);
  png_set_user_limits(session.codec, 1 << 24, 1 << 24);
  png_set_chunk_malloc_max(session.codec, 8 << 20);
  png_set_chunk_cache_max(session.codec, 64);
  png_read_info(session.codec, session.info);
  png_set_expand(session.codec);
  png_set_scale_16(session.codec);
  png_set_gray_to_rgb(session.codec);
  png_set_strip_alpha(session.codec);
  return true;
}

bool finish(Session& session, uint8_t* out, png_uint_32 height, size_t row_bytes) {
  if (setjmp(png_jmpbuf(session.codec))) return false;
  const int passes = png_set_interlace_handling(session.codec);
  png_read_update_info(session.codec, session.info);
  if (png_get_rowbytes(session.codec, session.info) != row_bytes) {
    png_error(session.codec, "the rows are not 8-bit RGB after conversion");
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 y = 0; y < height; ++y) {
      png_read_row(session.codec, out + size_t{y} * row_bytes, nullptr);
    }
  }
  png_read_end(session.codec, nullptr);
  return true;
}

struct Guard {
  Session& session;
  ~Guard() { png_destroy_read_struct(&session.codec, &session.info, nullptr); }
};

}  // namespace

void decode_png(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                int64_t max_pixels) {
  Session session;
  session.data = bytes.data();
  session.left = bytes.size();
  const Guard guard{session};
  session.codec = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, on_error, on_warning);
  if (session.codec != nullptr) session.info = png_create_info_struct(session.codec);
  if (session.info == nullptr) throw std::bad_alloc();
  if (!start(session)) raise<FileError>("{}: damaged or truncated PNG ({})", name, session.message);
  const auto width = png_get_image_width(session.codec, session.info);
  const auto height = png_get_image_height(session.codec, session.info);
  check_image_size(width, height, bytes.size(), name, max_pixels);
  prepare_image(static_cast<int>(width), static_cast<int>(height), out);
  if (!finish(session, out.pixels.data(), height, size_t{width} * 3)) {
    raise<FileError>("{}: damaged or truncated PNG ({})", name, session.message);
  }
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
void decode_png(std::span<const uint8_t>, const std::string& name, Image&, int64_t) {
  raise<FileError>(
      "{}: this build of brim cannot read PNG; install libpng (libpng-dev) and rebuild", name);
}
std::vector<uint8_t> encode_png(const Image&) {
  raise<FileError>(
      "[data] this build of brim cannot write PNG; install libpng (libpng-dev) and rebuild");
}
}  // namespace brim::data

#endif
