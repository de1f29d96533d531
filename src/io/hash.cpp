#include "io/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "io/regular_file.h"

namespace brim::io {

struct StreamHash::State {
  XXH64_state_t xxh64;
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) { XXH64_reset(&state_->xxh64, 0); }
StreamHash::~StreamHash() = default;

void StreamHash::add(const void* data, size_t bytes) {
  XXH64_update(&state_->xxh64, data, bytes);
  bytes_ += bytes;
}

FileHash StreamHash::digest() const {
  return {.hex = fmt::format("{:016x}", XXH64_digest(&state_->xxh64)), .bytes = bytes_};
}

FileHash hash_file(const std::string& path) {
  const RegularFile file(path, "file", "a file to hash");
  std::vector<uint8_t> buffer(1 << 18);
  StreamHash hash;
  for (uint64_t at = 0; at < file.bytes(); at += buffer.size()) {
    const size_t part = std::min<uint64_t>(buffer.size(), file.bytes() - at);
    file.read(buffer.data(), part, at);
    hash.add(buffer.data(), part);
  }
  return hash.digest();
}

}  // namespace brim::io
