// JPEG through libjpeg-turbo. libjpeg reports errors by a callback that must not return: it
// longjmps to a frame that holds only trivial objects, and the exception is thrown from there.
#include "data/image/jpeg.h"

#include "core/check.h"
#include "data/image/decode.h"

#if BRIM_HAVE_JPEG

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
// jpeglib.h needs size_t and FILE from the headers above.
#include <jerror.h>
#include <jpeglib.h>

namespace brim::data {

struct JpegSession {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];

  ~JpegSession() { jpeg_destroy_decompress(&codec); }
};

namespace {

[[noreturn]] void on_error(j_common_ptr codec) {
  auto* session = static_cast<JpegSession*>(codec->client_data);
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
  auto* session = static_cast<JpegSession*>(codec->client_data);
  std::snprintf(session->message, sizeof session->message, "more than %d scans", kMaxScans);
  std::longjmp(session->jump, 1);
}

// The functions that call libjpeg return false with session.message set on failure.
bool read_header(JpegSession& session, const uint8_t* data, size_t size, JpegGrey grey) {
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
  const bool one = space == JCS_GRAYSCALE && grey == JpegGrey::kept;
  session.codec.out_color_space = inks ? JCS_CMYK : one ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

#ifdef LIBJPEG_TURBO_VERSION_NUMBER
// The size, in pixels, to which a component's block of 8 x 8 is decoded, and the smallest of all.
#if JPEG_LIB_VERSION >= 70
int block_size(const jpeg_component_info& component) { return component.DCT_h_scaled_size; }
int least_block_size(const jpeg_decompress_struct& codec) { return codec.min_DCT_h_scaled_size; }
#else
int block_size(const jpeg_component_info& component) { return component.DCT_scaled_size; }
int least_block_size(const jpeg_decompress_struct& codec) { return codec.min_DCT_scaled_size; }
#endif

// Whether columns can be left out. Where colour is stored four times as coarse as brightness and
// decoded at a larger size, jpeg_crop_scanline miscounts its blocks and leaves memory unwritten.
bool can_crop(const jpeg_decompress_struct& codec) {
  const int least = least_block_size(codec);
  for (int c = 0; c < codec.num_components; ++c) {
    const jpeg_component_info& part = codec.comp_info[c];
    const int size = block_size(part);
    const bool full = codec.max_h_samp_factor * least == part.h_samp_factor * size &&
                      codec.max_v_samp_factor * least == part.v_samp_factor * size;
    if (size != least && !full) return false;
  }
  return true;
}
#endif

// Begins to decode at a size; `box` becomes what will be decoded, in pixels of that size.
bool start(JpegSession& session, int eighths, Box& box) {
  if (setjmp(session.jump)) return false;
  auto& codec = session.codec;
  codec.scale_num = static_cast<unsigned>(eighths);
  codec.scale_denom = 8;
  codec.do_block_smoothing = FALSE;  // of files without all scans: it differs at a part's edges
  jpeg_start_decompress(&codec);
  const auto width = int64_t{codec.output_width}, height = int64_t{codec.output_height};
  const auto scaled = [&](int64_t pixel) { return pixel * eighths / 8; };
  const auto above = [&](int64_t pixel, int64_t most) {
    return std::min((pixel * eighths + 7) / 8, most);
  };
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
  // Colour is interpolated from neighbours, so a pixel at the edge of what is decoded may differ.
  constexpr int64_t kMargin = 4;
  const int64_t left = std::max<int64_t>(scaled(box.x) - kMargin, 0);
  const int64_t right = above(int64_t{box.x} + box.width + 8 * kMargin / eighths + 1, width);
  JDIMENSION x = 0, wide = codec.output_width;
  if (can_crop(codec))
    x = static_cast<JDIMENSION>(left), wide = static_cast<JDIMENSION>(right - left);
  if (wide < codec.output_width) jpeg_crop_scanline(&codec, &x, &wide);
  const int64_t top = scaled(box.y), bottom = above(int64_t{box.y} + box.height, height);
  if (top > 0) jpeg_skip_scanlines(&codec, static_cast<JDIMENSION>(top));
  box = {static_cast<int>(x), static_cast<int>(top), static_cast<int>(codec.output_width),
         static_cast<int>(bottom - top)};
#else
  box = {0, 0, static_cast<int>(width), static_cast<int>(height)};
#endif
  return true;
}

bool has_inks(const jpeg_decompress_struct& codec) { return codec.out_color_space == JCS_CMYK; }

int channels_of(const jpeg_decompress_struct& codec) {
  return codec.out_color_space == JCS_GRAYSCALE ? 1 : 3;
}

// One row of four inks to RGB.
void convert_inks(const jpeg_decompress_struct& codec, const uint8_t* row, uint8_t* to) {
  const bool inverted = codec.saw_Adobe_marker;  // Adobe writes 255 for "no ink"
  for (size_t x = 0; x < codec.output_width; ++x) {
    const int key = inverted ? row[4 * x + 3] : 255 - row[4 * x + 3];
    for (size_t c = 0; c < 3; ++c) {
      const int ink = inverted ? row[4 * x + c] : 255 - row[4 * x + c];
      to[3 * x + c] = static_cast<uint8_t>((ink * key + 127) / 255);
    }
  }
}

// Decodes `rows` rows into `out`, with `to_the_end` also those that follow, to throw them away.
// `spare` is room for a row of four inks.
bool read_rows(JpegSession& session, int rows, bool to_the_end, uint8_t* out, uint8_t* spare) {
  if (setjmp(session.jump)) return false;
  auto& codec = session.codec;
  const bool inks = has_inks(codec);
  const size_t row_bytes = size_t{codec.output_width} * static_cast<size_t>(channels_of(codec));
  for (int y = 0; y < rows; ++y) {
    uint8_t* const at = out + row_bytes * static_cast<size_t>(y);
    uint8_t* to = inks ? spare : at;
    jpeg_read_scanlines(&codec, &to, 1);
    if (inks) convert_inks(codec, spare, at);
  }
  if (!to_the_end) return true;
  while (codec.output_scanline < codec.output_height) jpeg_read_scanlines(&codec, &spare, 1);
  jpeg_finish_decompress(&codec);
  return true;
}

}  // namespace

JpegFile::JpegFile(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels,
                   JpegGrey grey)
    : session_(std::make_unique<JpegSession>()), bytes_(bytes), name_(name) {
  session_->codec.err = jpeg_std_error(&session_->errors);
  session_->errors.error_exit = on_error;
  session_->errors.emit_message = on_message;
  session_->errors.output_message = on_output;
  session_->codec.client_data = session_.get();
  if (!read_header(*session_, bytes.data(), bytes.size(), grey))
    raise<FileError>("{}: damaged or truncated JPEG ({})", name_, session_->message);
  constexpr int64_t kPixelsPerByte = 10'000;
  check_image_size(session_->codec.image_width, session_->codec.image_height, bytes.size(),
                   kPixelsPerByte, name_, max_pixels);
}

JpegFile::~JpegFile() = default;

int JpegFile::width() const { return static_cast<int>(session_->codec.image_width); }
int JpegFile::height() const { return static_cast<int>(session_->codec.image_height); }

Box JpegFile::decode(int eighths, const Box& box, Image& out) {
  const auto damaged = [&] {
    raise<FileError>("{}: damaged or truncated JPEG ({})", name_, session_->message);
  };
  Box place = box;
  if (!start(*session_, eighths, place)) damaged();
  const jpeg_decompress_struct& codec = session_->codec;
  prepare_image({channels_of(codec), place.height, place.width}, out);
  // What follows the box is not worth reading, unless the file was cut off somewhere there.
  const size_t size = bytes_.size();
  const bool ends = bytes_[size - 2] == 0xff && bytes_[size - 1] == JPEG_EOI;
  const bool all = place.height == static_cast<int>(codec.output_height);
  std::vector<uint8_t> spare;
  if (has_inks(codec) || !ends) spare.resize(size_t{codec.output_width} * 4);
  if (!read_rows(*session_, place.height, all || !ends, out.pixels.data(), spare.data())) damaged();
  return place;
}

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, Image& out,
                 int64_t max_pixels, JpegGrey grey) {
  JpegFile file(bytes, name, max_pixels, grey);
  file.decode(8, {0, 0, file.width(), file.height()}, out);
}

}  // namespace brim::data

#else

namespace brim::data {

struct JpegSession {};

JpegFile::JpegFile(std::span<const uint8_t>, const std::string& name, int64_t /*max_pixels*/,
                   JpegGrey /*grey*/) {
  raise<FileError>(
      "{}: this build of brim cannot read JPEG; install libjpeg-turbo (libjpeg-dev) and rebuild",
      name);
}
JpegFile::~JpegFile() = default;
int JpegFile::width() const { return 0; }
int JpegFile::height() const { return 0; }
Box JpegFile::decode(int, const Box&, Image&) { return {}; }

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, Image&, int64_t,
                 JpegGrey) {
  const JpegFile file(bytes, name);
}

}  // namespace brim::data

#endif
