// What a reader reads: a regular file, or bytes in memory that the caller keeps.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "io/regular_file.h"

namespace brim::io {

class InputBytes {
 public:
  /// `place` and `wanted` as in RegularFile. Throws FileError.
  InputBytes(const std::string& path, const char* place, const char* wanted)
      : path_(path),
        file_(std::make_unique<RegularFile>(path, place, wanted)),
        size_(file_->bytes()) {}
  /// `name` stands in messages where the path would.
  InputBytes(std::span<const uint8_t> memory, const std::string& name)
      : path_(name), memory_(memory), size_(memory.size()) {}

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  /// The range must lie within size(). Throws FileError when the file has shrunk.
  void read(void* to, uint64_t bytes, uint64_t offset) const {
    if (file_)
      file_->read(to, bytes, offset);
    else if (bytes > 0)
      std::memcpy(to, memory_.data() + offset, bytes);
  }

 private:
  std::string path_;
  std::unique_ptr<const RegularFile> file_;
  std::span<const uint8_t> memory_;  // instead of the file
  uint64_t size_;
};

}  // namespace brim::io
