#include "io/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "io/regular_file.h"

namespace brim::io {

FileHash hash_file(const std::string& path) {
  const RegularFile file(path, "file", "a file to hash");
  std::vector<uint8_t> buffer(1 << 18);
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  for (uint64_t at = 0; at < file.bytes(); at += buffer.size()) {
    const size_t part = std::min<uint64_t>(buffer.size(), file.bytes() - at);
    file.read(buffer.data(), part, at);
    XXH64_update(&state, buffer.data(), part);
  }
  return {.hex = fmt::format("{:016x}", XXH64_digest(&state)), .bytes = file.bytes()};
}

}  // namespace brim::io
