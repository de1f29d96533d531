// Writing the files of a conversion.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "core/check.h"

namespace brim::data {

/// A file written front to back, with errors that name it.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "wbe")) {
    if (file_ == nullptr) fail();
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  void write(const void* data, size_t bytes) {
    if (std::fwrite(data, 1, bytes, file_) != bytes) fail();
  }
  /// Makes sure that all of it was taken by the system.
  void flush() {
    if (std::fflush(file_) != 0) fail();
  }
  /// Flushes and syncs. Without it the file is left as it is.
  void close() {
    const bool flushed = std::fflush(file_) == 0 && ::fsync(::fileno(file_)) == 0;
    const int error = errno;
    std::fclose(std::exchange(file_, nullptr));
    errno = error;
    if (!flushed) fail();
  }

 private:
  [[noreturn]] void fail() const {
    raise<FileError>("{}: cannot write: {}", path_, std::strerror(errno));
  }

  std::string path_;
  std::FILE* file_;
};

}  // namespace brim::data
