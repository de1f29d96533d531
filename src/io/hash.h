// XXH64 (Collet, github.com/Cyan4973/xxHash, doc/xxhash_spec.md): finds damage, does not stop
// forgery. `xxhsum -H64` prints the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace brim::io {

uint64_t xxh64(const void* data, size_t bytes, uint64_t seed = 0);

/// The hash of a file as 16 hexadecimal digits, and its size. Throws FileError.
struct FileHash {
  std::string hex;
  uint64_t bytes = 0;
};
FileHash hash_file(const std::string& path);

}  // namespace brim::io
