// zlib behind gzip.h. Unlike libarchive's reader it compares the checksum at the end.
#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "core/check.h"

namespace brim::data {

bool looks_like_gzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

struct GzipReader::Impl {
  z_stream stream{};
  ~Impl() { inflateEnd(&stream); }
};

GzipReader::GzipReader(std::span<const uint8_t> bytes, std::string name)
    : left_(bytes), name_(std::move(name)), impl_(std::make_unique<Impl>()) {
  constexpr int kGzipOnly = 15 + 16;  // the largest window; a gzip header and trailer
  if (inflateInit2(&impl_->stream, kGzipOnly) != Z_OK) throw std::bad_alloc();
}

GzipReader::~GzipReader() = default;

size_t GzipReader::read_some(std::span<uint8_t> out) {
  constexpr size_t kMax = size_t{1} << 30;  // zlib counts in 32 bits
  z_stream& stream = impl_->stream;
  while (!ended_) {
    stream.next_in = const_cast<Bytef*>(left_.data());
    stream.avail_in = static_cast<uInt>(std::min(left_.size(), kMax));
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(std::min(out.size(), kMax));
    const uInt in = stream.avail_in, room = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    left_ = left_.subspan(in - stream.avail_in);
    const uInt made = room - stream.avail_out;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    BRIM_CHECK(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, FileError,
               "{}: damaged gzip file ({}); copy or download it again", name_,
               stream.msg != nullptr ? stream.msg : "unknown error");
    if (status == Z_STREAM_END) {  // gzip files may be joined (RFC 1952, section 2.2)
      ended_ = left_.empty();
      BRIM_CHECK(ended_ || looks_like_gzip(left_), FileError,
                 "{}: {} bytes follow the end of the gzip file; copy or download it again", name_,
                 left_.size());
      if (!ended_ && inflateReset(&stream) != Z_OK) throw std::bad_alloc();
    }
    if (made > 0) return made;
    BRIM_CHECK(status == Z_STREAM_END || stream.avail_in < in, FileError,
               "{}: truncated gzip file; copy or download it again", name_);
  }
  return 0;
}

void GzipReader::read(std::span<uint8_t> out) {
  while (!out.empty()) {
    const size_t made = read_some(out);
    BRIM_CHECK(made > 0, FileError,
               "{}: ends {} bytes too early once it is unpacked; copy or download it again", name_,
               out.size());
    out = out.subspan(made);
  }
}

void GzipReader::finish() {
  uint8_t extra = 0;
  BRIM_CHECK(read_some({&extra, 1}) == 0, FileError,
             "{}: holds more bytes than its header declares; copy or download it again", name_);
}

}  // namespace brim::data
