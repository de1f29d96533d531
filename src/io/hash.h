// Hashes of files: XXH64 (core/hash.h), as `xxhsum -H64` prints it.
#pragma once

#include <cstdint>
#include <string>

namespace brim::io {

/// The hash of a file as 16 hexadecimal digits, and its size. Throws FileError.
struct FileHash {
  std::string hex;
  uint64_t bytes = 0;
};
FileHash hash_file(const std::string& path);

}  // namespace brim::io
