// A regular file opened for reading. Pipes and devices are refused, not waited for.
#pragma once

#include <cstdint>
#include <string>

namespace brim::io {

class RegularFile {
 public:
  /// `place` and `wanted` are for messages: "[place] PATH is not a regular file; expected WANTED".
  /// Throws FileError.
  RegularFile(const std::string& path, const char* place, const char* wanted);
  ~RegularFile();
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;

  uint64_t bytes() const { return bytes_; }
  /// The range must lie within bytes(). Throws FileError, also when the file has shrunk.
  void read(void* to, uint64_t bytes, uint64_t offset) const;

 private:
  std::string path_;
  const char* place_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace brim::io
