#include "io/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/check.h"
#include "io/atomic_file.h"

namespace brim::io {
namespace {

namespace fs = std::filesystem;

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}-{}.tmp", path, getpid(), ++count);
}

bool is_temporary_name(std::string_view name, std::string_view of) {
  if (name.size() < of.size() + 8 || !name.starts_with(of) || name[of.size()] != '.' ||
      !name.ends_with(".tmp"))
    return false;
  name = name.substr(of.size() + 1, name.size() - of.size() - 5);
  const size_t dash = name.find('-');
  return dash != std::string_view::npos && all_digits(name.substr(0, dash)) &&
         all_digits(name.substr(dash + 1));
}

bool lock_temporary(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat mine {
  }, there{};
  return fstat(fd, &mine) == 0 && lstat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino;
}

void remove_leftovers(const std::string& folder, std::string_view of) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (is_temporary_name(it->path().filename().string(), of)) found.push_back(it->path());
  for (const fs::path& path : found) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) fs::remove_all(path, error);
    close(fd);
  }
}

ScratchFolder::ScratchFolder(const std::string& folder, const std::string& name) {
  remove_leftovers(folder, "." + name);
  const std::string base = (fs::path(folder) / ("." + name)).string();
  for (int attempt = 0; attempt < 100; ++attempt) {
    path_ = temporary_name(base);
    if (mkdir(path_.c_str(), 0700) != 0) {
      if (errno == EEXIST) continue;
      break;
    }
    lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (lock_ >= 0 && lock_temporary(lock_, path_)) return;
    if (lock_ >= 0) close(lock_);
  }
  raise<FileError>("[file] {} cannot be written to: {}; it must exist and be writable", folder,
                   error_text(errno));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace brim::io
