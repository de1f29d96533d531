// A JPEG file in memory, of which a part may be decoded, at full size or reduced by the decoder
// itself: that costs a fraction of decoding everything and throwing most of it away.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <brim/data/image.h>
#include "data/image/box.h"

namespace brim::data {

/// True if the first bytes are those of a JPEG.
bool looks_like_jpeg(std::span<const uint8_t> bytes);

struct JpegSession;  // libjpeg's state

/// What becomes of a file of one channel.
enum class JpegGrey : uint8_t { as_rgb, kept };

class JpegFile {
 public:
  /// Reads the header. `bytes` must outlive the object; `name` begins its errors. Throws FileError
  /// for damage and for more than `max_pixels`.
  JpegFile(std::span<const uint8_t> bytes, const std::string& name, int64_t max_pixels = kMaxPixels,
           JpegGrey grey = JpegGrey::as_rgb);
  ~JpegFile();

  int width() const;
  int height() const;

  /// Decodes `box` (pixels of the whole picture) at `eighths`/8 of its size, 1 <= eighths <= 8, and
  /// returns the place of `out` in the whole picture of that size; it covers the box and may reach
  /// beyond it. The pixels are those of decoding everything at that size. To be called once. Throws
  /// FileError for damage above and in the box; what lies below it is read only if the file has no
  /// end mark, to find out whether it was cut off.
  Box decode(int eighths, const Box& box, Image& out);

 private:
  std::unique_ptr<JpegSession> session_;
  std::span<const uint8_t> bytes_;
  std::string name_;
};

}  // namespace brim::data
