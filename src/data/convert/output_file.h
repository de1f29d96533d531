// Writing the files of a conversion.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/check.h"
#include "core/open_to_write.h"
#include "core/write_cure.h"

namespace brim::data {

/// A new file written front to back, with errors that name it.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path)
      : path_(path), file_(open_stream(path, O_WRONLY | O_EXCL)) {
    if (!file_) fail();
  }
  void write(const void* data, size_t bytes) {
    if (std::fwrite(data, 1, bytes, file_.get()) != bytes) fail();
  }
  /// Makes sure that all of it was taken by the system.
  void flush() {
    if (std::fflush(file_.get()) != 0) fail();
  }
  /// Flushes and syncs. Without it the file is left as it is.
  void close() {
    flush();
    if (::fsync(::fileno(file_.get())) != 0) fail();
    file_.reset();
  }

 private:
  [[noreturn]] void fail() const {
    raise<FileError>("{}: cannot write: {}", path_, write_failure(errno));
  }

  std::string path_;
  OwnedStream file_;
};

}  // namespace brim::data
