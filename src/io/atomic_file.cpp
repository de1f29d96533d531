// Temporary files are opened exclusively, so writers never share one.
#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/open_to_write.h"
#include "core/write_cure.h"
#include "io/regular_file.h"
#include "io/temporary.h"

namespace brim::io {
namespace {

constexpr size_t kBuffer = 1 << 16, kBypassBuffer = 1 << 20;
constexpr size_t kBlock = 4096;  // memory, positions and sizes of writes past the cache

}  // namespace

std::string error_text(int error) { return std::generic_category().message(error); }

std::string without_links(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return path;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return path;
  std::error_code error;
  const std::string real = std::filesystem::canonical(path, error).string();
  return error ? path : real;
}

std::string parent_folder(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void sync_folder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = fd < 0 ? errno : fsync(fd) != 0 ? errno : 0;
  if (fd >= 0) close(fd);
  // Some file systems cannot sync a folder and say so.
  BRIM_CHECK(error == 0 || error == EINVAL || error == ENOTSUP, FileError,
             "[file] {}: the folder cannot be synced: {}; check the disk", folder,
             error_text(error));
}

namespace {

/// A device or a pipe. The reader of a pipe may be starting, or never come.
int open_in_place(const std::string& path, bool is_pipe) {
  constexpr auto kPatience = std::chrono::seconds(2);
  constexpr auto kPause = std::chrono::milliseconds(10);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  int file = -1;
  while ((file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)) < 0 && errno == ENXIO &&
         is_pipe && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kPause);
  if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path, Links links, Cache cache)
    : path_(links == Links::follow ? without_links(path) : path),
      capacity_(cache == Cache::bypass ? kBypassBuffer : kBuffer) {
  BRIM_CHECK(!path_.empty(), FileError, "[file] an empty path names no file; give one");
  struct stat info {};
  const bool exists = (links == Links::follow ? stat : lstat)(path_.c_str(), &info) == 0;
  BRIM_CHECK(!exists || !S_ISDIR(info.st_mode), FileError,
             "[file] {} is a folder; give the name of a file", path_);
  if (exists && !S_ISREG(info.st_mode) && !(links == Links::replace && S_ISLNK(info.st_mode))) {
    temporary_ = path_;
    fd_ = open_in_place(path_, S_ISFIFO(info.st_mode));
  } else {
    remove_leftovers(parent_folder(path_), path_.substr(path_.find_last_of('/') + 1),
                     std::filesystem::file_type::regular);
    open_temporary(exists && S_ISREG(info.st_mode) ? std::optional(info.st_mode & 0777)
                                                   : std::nullopt);
  }
  if (fd_ < 0) {
    const int error = errno;
    BRIM_CHECK(error != ENXIO || !S_ISFIFO(info.st_mode), FileError,
               "[file] {} is a pipe that nobody reads; start its reader first", path_);
    raise<FileError>("[file] {} cannot be written: {}", path_, write_failure(error));
  }
  if (cache == Cache::bypass && temporary_ != path_) bypasses_ = set_bypass(true);
  buffer_.reset(static_cast<char*>(std::aligned_alloc(kBlock, capacity_)));
  if (!buffer_) fail("buffered", ENOMEM);
}

bool AtomicFile::set_bypass(bool on) noexcept {
  const int flags = fcntl(fd_, F_GETFL);
  return fcntl(fd_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

void AtomicFile::open_temporary(std::optional<unsigned> old_mode) {
  // Names may be taken: on another machine, or by a process of this number where there are no
  // locks.
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary_ = temporary_name(path_);
    fd_ = open_to_write(temporary_, O_WRONLY | O_EXCL, old_mode.value_or(0666));
    if (fd_ < 0 && errno != EEXIST) return;
    if (fd_ >= 0 && lock_temporary(fd_, temporary_)) {
      // What the umask took away; some file systems have no permissions.
      if (old_mode) (void)fchmod(fd_, *old_mode);
      return;
    }
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ < 0) return;
  close(fd_);
  fd_ = -1;
  if (temporary_ != path_) unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what, int error) {
  discard();
  raise<FileError>("[file] {} cannot be {}: {}; nothing was left behind", path_, what,
                   write_failure(error));
}

void AtomicFile::write(const void* data, size_t bytes) {
  BRIM_CHECK(fd_ >= 0, FileError, "[file] {}: written to after it was closed", path_);
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    if (buffered_ == 0 && bytes >= capacity_ && !bypasses_) return put(from, bytes);
    const size_t part = std::min(bytes, capacity_ - buffered_);
    std::memcpy(buffer_.get() + buffered_, from, part);
    buffered_ += part, from += part, bytes -= part;
    if (buffered_ == capacity_) flush();
  }
}

void AtomicFile::flush() {
  const size_t bytes = std::exchange(buffered_, 0);
  const size_t blocks = bypasses_ ? bytes / kBlock * kBlock : bytes;
  put(buffer_.get(), blocks);
  if (blocks == bytes) return;
  bypasses_ = !set_bypass(false);
  put(buffer_.get() + blocks, bytes - blocks);
}

void AtomicFile::put(const char* from, size_t bytes) {
  if (hash_) hash_->add(from, bytes);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    const int error = n < 0 ? errno : EIO;
    if (n < 0 && bypasses_ && (error == EINVAL || error == EOPNOTSUPP) && set_bypass(false)) {
      bypasses_ = false;  // it cannot, or not after a part of a block
      continue;
    }
    if (n <= 0) fail("written", error);
    from += n;
    bytes -= static_cast<size_t>(n);
  }
}

void AtomicFile::start_writeback() {
  flush();
  // Only a hint; what fails is told by fsync.
  if (fd_ >= 0) sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
}

void AtomicFile::commit(FolderSync folder) {
  BRIM_CHECK(fd_ >= 0, FileError, "[file] {}: committed twice", path_);
  flush();
  const bool replaces = temporary_ != path_;
  if (replaces && fsync(fd_) != 0) fail("synced", errno);
  const int lock = fcntl(fd_, F_DUPFD_CLOEXEC, 0);  // until it has its name
  // close() may be the first to report a full disk (NFS).
  const int closed = close(std::exchange(fd_, -1));
  int error = closed != 0 ? errno : 0;
  if (replaces && error == 0 && std::rename(temporary_.c_str(), path_.c_str()) != 0) error = errno;
  if (replaces && error != 0) unlink(temporary_.c_str());
  if (lock >= 0) close(lock);
  if (!replaces) return;
  if (error != 0) fail("put in place", error);
  if (folder == FolderSync::now) sync_folder(parent_folder(path_));
}

void write_file_atomically(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

void copy_file_atomically(const std::string& from, const std::string& to) {
  const RegularFile file(from, "io", "a file to copy");
  AtomicFile copy(to, Links::replace);
  std::vector<char> part(size_t{1} << 20);
  for (uint64_t at = 0; at < file.bytes(); at += part.size()) {
    const auto count = std::min<uint64_t>(part.size(), file.bytes() - at);
    file.read(part.data(), count, at);
    copy.write(part.data(), count);
  }
  copy.commit();
}

}  // namespace brim::io
