// An open descriptor of a regular file, and its size.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/check.h"

namespace brim::data {

struct Descriptor {
  int fd = -1;
  struct stat info {};

  /// Throws FileError.
  explicit Descriptor(const std::string& path) {
    // O_NONBLOCK: a FIFO must be refused below, not waited for.
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) raise<FileError>("{}: cannot open: {}", path, std::strerror(errno));
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd);
      raise<FileError>("{}: not a regular file", path);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd); }

  int64_t size() const { return info.st_size; }
};

}  // namespace brim::data
