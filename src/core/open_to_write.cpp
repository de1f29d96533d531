#include "core/open_to_write.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace brim {

int open_to_write(const std::string& path, int flags, unsigned mode) {
  // O_NONBLOCK: a pipe would wait for its reader.
  const int file = open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);
  struct stat info {};
  if (file < 0 || (fstat(file, &info) == 0 && S_ISREG(info.st_mode))) return file;
  close(file);
  errno = EEXIST;
  return -1;
}

OwnedStream open_stream(const std::string& path, int flags) {
  const int file = open_to_write(path, flags);
  OwnedStream stream(file < 0 ? nullptr : fdopen(file, (flags & O_APPEND) != 0 ? "ab" : "wb"),
                     &std::fclose);
  if (file >= 0 && !stream) close(file);
  return stream;
}

}  // namespace brim
