// Temporary files are named PATH.PID-N.tmp and opened exclusively, so writers never share one.
#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "core/check.h"

namespace brim::io {
namespace {

constexpr size_t kBuffer = 1 << 16;

std::string temporary_name(const std::string& path) {
  static std::atomic<int> count{0};
  return fmt::format("{}.{}-{}.tmp", path, getpid(), ++count);
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool is_temporary_name(std::string_view name, std::string_view of) {
  if (name.size() < of.size() + 8 || !name.starts_with(of) || name[of.size()] != '.' ||
      !name.ends_with(".tmp"))
    return false;
  name = name.substr(of.size() + 1, name.size() - of.size() - 5);
  const size_t dash = name.find('-');
  return dash != std::string_view::npos && all_digits(name.substr(0, dash)) &&
         all_digits(name.substr(dash + 1));
}

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

// A link stays what it is, and the file it leads to is replaced.
AtomicFile::AtomicFile(const std::string& path) : path_(without_links(path)) {
  BRIM_CHECK(!path_.empty(), FileError, "[file] an empty path names no file; give one");
  struct stat info {};
  const bool exists = stat(path_.c_str(), &info) == 0;
  BRIM_CHECK(!exists || !S_ISDIR(info.st_mode), FileError,
             "[file] {} is a folder; give the name of a file", path_);
  const bool in_place = exists && !S_ISREG(info.st_mode);
  // A killed process of this number may have left such a name behind.
  for (int attempt = 0; fd_ < 0 && attempt < 100; ++attempt) {
    temporary_ = in_place ? path_ : temporary_name(path_);
    fd_ = open(temporary_.c_str(),
               in_place ? O_WRONLY | O_CLOEXEC : O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) {
    const int error = errno;
    raise<FileError>("[file] {} cannot be written: {}; the folder {} must exist and be writable",
                     path_, error_text(error), parent_folder(path_));
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
  raise<FileError>("[file] {} cannot be {}: {}; {}", path_, what, error_text(error),
                   error == ENOSPC || error == EDQUOT || error == EFBIG
                       ? "make room or write elsewhere, nothing was left behind"
                       : "nothing was left behind");
}

void AtomicFile::write(const void* data, size_t bytes) {
  BRIM_CHECK(fd_ >= 0, FileError, "[file] {}: written to after it was closed", path_);
  if (buffer_.size() + bytes > kBuffer) flush();
  if (bytes < kBuffer) {
    buffer_.append(static_cast<const char*>(data), bytes);
    return;
  }
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("written", n < 0 ? errno : EIO);
    from += n;
    bytes -= static_cast<size_t>(n);
  }
}

void AtomicFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("written", n < 0 ? errno : EIO);
    done += static_cast<size_t>(n);
  }
  buffer_.clear();
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
  // close() may be the first to report a full disk (NFS).
  const int closed = close(fd_);
  const int close_error = errno;
  fd_ = -1;
  if (!replaces) return;
  if (closed != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = closed != 0 ? close_error : errno;
    unlink(temporary_.c_str());
    fail("put in place", error);
  }
  if (folder == FolderSync::now) sync_folder(parent_folder(path_));
}

void write_file_atomically(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace brim::io
