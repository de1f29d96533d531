// Hashes of files: XXH64 (core/hash.h), as `xxhsum -H64` prints it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace brim::io {

/// A hash as 16 hexadecimal digits, and of how many bytes it is.
struct FileHash {
  std::string hex;
  uint64_t bytes = 0;
};

/// The hash of bytes that come one part after the other.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;

  void add(const void* data, size_t bytes);
  FileHash digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  uint64_t bytes_ = 0;
};

/// That of a file. Throws FileError.
FileHash hash_file(const std::string& path);

}  // namespace brim::io
