// libarchive never compares the checksum of a gzip file, so that one is zlib's.
#include "data/source/unpacker.h"

#if BRIM_HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/check.h"
#include "data/gzip.h"

namespace brim::data {

struct Unpacker::Impl {
  std::span<const uint8_t> bytes;
  std::string name;
  std::optional<GzipReader> gzip;
  std::vector<uint8_t> buffer;  // of gzip
  archive* handle = nullptr;    // of xz and zstd
  bool taken = false;           // of plain bytes

  ~Impl() { archive_read_free(handle); }

  void check(int status) const {
    const char* const reason = archive_error_string(handle);
    BRIM_CHECK(status >= ARCHIVE_WARN, FileError, "{}: damaged or truncated archive ({})", name,
               reason != nullptr ? reason : "unknown error");
  }
};

Unpacker::Unpacker(std::span<const uint8_t> bytes, const std::string& name)
    : impl_(std::make_unique<Impl>()) {
  impl_->bytes = bytes;
  impl_->name = name;
  if (looks_like_gzip(bytes)) {
    constexpr size_t kBlock = size_t{64} << 10;
    impl_->gzip.emplace(bytes, name);
    impl_->buffer.resize(kBlock);
    return;
  }
  archive* const handle = impl_->handle = archive_read_new();
  if (handle == nullptr) throw std::bad_alloc();
  archive_read_support_filter_xz(handle);
  archive_read_support_filter_zstd(handle);
  archive_read_support_format_raw(handle);
  archive_entry* entry = nullptr;
  int status = archive_read_open_memory(handle, bytes.data(), bytes.size());
  if (status == ARCHIVE_OK) status = archive_read_next_header(handle, &entry);
  if (archive_filter_code(handle, 0) > ARCHIVE_FILTER_NONE) {
    impl_->check(status);
  } else {
    archive_read_free(handle);
    impl_->handle = nullptr;
  }
}

Unpacker::~Unpacker() = default;

bool Unpacker::plain() const { return !impl_->gzip && impl_->handle == nullptr; }

std::span<const uint8_t> Unpacker::next() {
  Impl& s = *impl_;
  if (s.gzip) return {s.buffer.data(), s.gzip->read_some(s.buffer)};
  if (s.handle == nullptr)
    return std::exchange(s.taken, true) ? std::span<const uint8_t>() : s.bytes;
  const void* block = nullptr;
  size_t size = 0;
  la_int64_t offset = 0;
  int status = ARCHIVE_OK;
  do {
    status = archive_read_data_block(s.handle, &block, &size, &offset);
    if (status == ARCHIVE_EOF) return {};
    s.check(status);
  } while (size == 0);
  return {static_cast<const uint8_t*>(block), size};
}

double Unpacker::fraction() const {
  const Impl& s = *impl_;
  if (s.bytes.empty() || plain()) return s.taken ? 1 : 0;
  const auto total = static_cast<double>(s.bytes.size());
  if (s.gzip) return 1 - static_cast<double>(s.gzip->left()) / total;
  return static_cast<double>(archive_filter_bytes(s.handle, -1)) / total;
}

}  // namespace brim::data
#endif
