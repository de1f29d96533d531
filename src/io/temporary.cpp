#include "io/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <system_error>
#include <vector>

#include "core/check.h"
#include "core/hash.h"
#include "core/write_cure.h"
#include "io/atomic_file.h"

namespace brim::io {
namespace {

namespace fs = std::filesystem;

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// What stands for a name in its temporary ones, which would be too long with a long one.
std::string short_name(std::string_view name) {
  constexpr size_t kLongest = 200;  // of 255 bytes
  return name.size() <= kLongest ? std::string(name)
                                 : fmt::format("{:016x}", xxh64(name.data(), name.size()));
}

constexpr std::string_view kTemporaryMark = ".brim-", kTemporaryEnd = ".tmp";

}  // namespace

std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  const size_t name = path.find_last_of('/') + 1;
  BRIM_CHECK(path.size() - name <= NAME_MAX, FileError,
             "[file] {}: its name has more than {} bytes; give a shorter one", path, NAME_MAX);
  return fmt::format("{}.{}{}{}-{}{}", path.substr(0, name), short_name(path.substr(name)),
                     kTemporaryMark, getpid(), ++count, kTemporaryEnd);
}

std::optional<std::string_view> temporary_of(std::string_view name) {
  const size_t mark = name.rfind(kTemporaryMark);
  if (mark == std::string_view::npos || !name.starts_with('.') || !name.ends_with(kTemporaryEnd))
    return {};
  std::string_view numbers = name.substr(mark + kTemporaryMark.size());
  numbers.remove_suffix(kTemporaryEnd.size());
  const size_t dash = numbers.find('-');
  const bool ours = mark > 1 && dash != std::string_view::npos &&
                    all_digits(numbers.substr(0, dash)) && all_digits(numbers.substr(dash + 1));
  if (!ours) return {};
  return name.substr(1, mark - 1);
}

bool lock_temporary(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  struct stat mine {
  }, there{};
  return fstat(fd, &mine) == 0 && lstat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino;
}

void remove_leftovers(const std::string& folder, std::string_view of, fs::file_type type) {
  const std::string name = short_name(of);
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (temporary_of(it->path().filename().string()) == name &&
        it->symlink_status(error).type() == type)
      found.push_back(it->path());
  for (const fs::path& path : found) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      if (type == fs::file_type::directory)
        fs::remove_all(path, error);
      else
        fs::remove(path, error);
    }
    close(fd);
  }
}

ScratchFolder::ScratchFolder(const std::string& folder, const std::string& name) {
  remove_leftovers(folder, name, fs::file_type::directory);
  const std::string base = (fs::path(folder) / name).string();
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
  raise<FileError>("[file] {} cannot be written to: {}", folder, write_failure(errno));
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace brim::io
