// Reads with pread instead of a map: a file that shrinks while it is open gives an error, no
// signal.
#include "io/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/check.h"
#include "io/atomic_file.h"

namespace brim::io {

RegularFile::RegularFile(const std::string& path, const char* place, const char* wanted)
    : path_(path), place_(place) {
  // O_NONBLOCK: opening a pipe would wait for its writer.
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) {
    const int error = errno;
    raise<FileError>("[{}] {}: {}; expected {}", place, path, error_text(error), wanted);
  }
  struct stat info {};
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd_);
    raise<FileError>("[{}] {} is not a regular file; expected {}", place, path, wanted);
  }
  bytes_ = static_cast<uint64_t>(info.st_size);
}

RegularFile::~RegularFile() { close(fd_); }

void RegularFile::read(void* to, uint64_t bytes, uint64_t offset) const {
  char* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n =
        pread(fd_, out, std::min<uint64_t>(bytes, 1 << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    BRIM_CHECK(n > 0, FileError, "[{}] {}: cannot be read at byte {}: {}", place_, path_, offset,
               n < 0 ? error_text(errno) : "the file has shrunk since it was opened");
    out += n;
    bytes -= static_cast<uint64_t>(n);
    offset += static_cast<uint64_t>(n);
  }
}

}  // namespace brim::io
