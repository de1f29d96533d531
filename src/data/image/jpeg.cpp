// JPEG through libjpeg-turbo. libjpeg reports errors by a callback that must not return: it
// longjmps to a frame that holds only trivial objects, and the exception is thrown from there.
#include "core/check.h"
#include "data/image/decode.h"

#if BRIM_HAVE_JPEG

#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h needs size_t and FILE from the headers above.
#include <jerror.h>
#include <jpeglib.h>

namespace brim::data {
namespace {

struct Session {
  jpeg_decompress_struct codec;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr codec) {
  auto* session = static_cast<Session*>(codec->client_data);
  codec->err->format_message(codec, session->message);
  std::longjmp(session->jump, 1);
}

// Level -1 is a warning: damaged data that libjpeg would paper over. Foreign bytes between segments
// and an odd revision number are harmless and common in photographs.
void on_message(j_common_ptr codec, int level) {
  if (level >= 0) return;
  const int code = codec->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM) return;
  on_error(codec);
}

void on_output(j_common_ptr) {}

// A scan of some bytes may cost as much as the whole picture; no encoder makes nearly as many.
void on_progress(j_common_ptr codec) {
  constexpr int kMaxScans = 500;
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number <= kMaxScans) return;
  auto* session = static_cast<Session*>(codec->client_data);
  std::snprintf(session->message, sizeof session->message, "more than %d scans", kMaxScans);
  std::longjmp(session->jump, 1);
}

// Reads the header. False with session.message set on failure.
bool start(Session& session, const uint8_t* data, size_t size) {
  if (setjmp(session.jump)) return false;
  jpeg_create_decompress(&session.codec);
  session.codec.client_data = &session;
  session.progress.progress_monitor = on_progress;
  session.codec.progress = &session.progress;
  session.codec.mem->max_memory_to_use = 1L
                                         << 30;  // bounds the buffers of hostile progressive files
  jpeg_mem_src(&session.codec, data, static_cast<unsigned long>(size));
  jpeg_read_header(&session.codec, TRUE);
  const auto space = session.codec.jpeg_color_space;
  const bool inks = space == JCS_CMYK || space == JCS_YCCK;
  session.codec.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  return true;
}

// Decodes all rows into `out`; `row` is room for one row of four inks, used for CMYK only.
bool finish(Session& session, uint8_t* out, uint8_t* row) {
  if (setjmp(session.jump)) return false;
  auto& codec = session.codec;
  jpeg_start_decompress(&codec);
  const size_t width = codec.output_width;
  while (codec.output_scanline < codec.output_height) {
    uint8_t* to = out + size_t{codec.output_scanline} * width * 3;
    if (codec.out_color_space == JCS_RGB) {
      jpeg_read_scanlines(&codec, &to, 1);
      continue;
    }
    jpeg_read_scanlines(&codec, &row, 1);
    const bool inverted = codec.saw_Adobe_marker;  // Adobe writes 255 for "no ink"
    for (size_t x = 0; x < width; ++x) {
      const int key = inverted ? row[4 * x + 3] : 255 - row[4 * x + 3];
      for (size_t c = 0; c < 3; ++c) {
        const int ink = inverted ? row[4 * x + c] : 255 - row[4 * x + c];
        to[3 * x + c] = static_cast<uint8_t>((ink * key + 127) / 255);
      }
    }
  }
  jpeg_finish_decompress(&codec);
  return true;
}

// Releases libjpeg's memory however the scope is left.
struct Guard {
  Session& session;
  ~Guard() { jpeg_destroy_decompress(&session.codec); }
};

}  // namespace

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                 int64_t max_pixels) {
  Session session{};
  session.codec.err = jpeg_std_error(&session.errors);
  session.errors.error_exit = on_error;
  session.errors.emit_message = on_message;
  session.errors.output_message = on_output;
  session.codec.client_data = &session;
  const Guard guard{session};
  if (!start(session, bytes.data(), bytes.size())) {
    raise<FileError>("{}: damaged or truncated JPEG ({})", name, session.message);
  }
  prepare_image(session.codec.image_width, session.codec.image_height, bytes.size(), name,
                max_pixels, out);
  std::vector<uint8_t> row;
  if (session.codec.out_color_space == JCS_CMYK) row.resize(size_t{session.codec.image_width} * 4);
  if (!finish(session, out.pixels.data(), row.data())) {
    raise<FileError>("{}: damaged or truncated JPEG ({})", name, session.message);
  }
}

}  // namespace brim::data

#else

namespace brim::data {
void decode_jpeg(std::span<const uint8_t>, const std::string& name, Image&, int64_t) {
  raise<FileError>(
      "{}: this build of brim cannot read JPEG; install libjpeg-turbo (libjpeg-dev) and rebuild",
      name);
}
}  // namespace brim::data

#endif
