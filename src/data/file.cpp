// POSIX files behind data/file.h.
#include "data/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"

namespace brim::data {
namespace {

// An open descriptor of a regular file and its size.
struct Descriptor {
  int fd = -1;
  int64_t size = 0;

  explicit Descriptor(const std::string& path) {
    // O_NONBLOCK: a FIFO must be refused below, not waited for.
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) raise<FileError>("{}: cannot open: {}", path, std::strerror(errno));
    struct stat info {};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
      ::close(fd);
      raise<FileError>("{}: not a regular file", path);
    }
    size = info.st_size;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd); }
};

}  // namespace

void read_file(const std::string& path, std::vector<uint8_t>& out) {
  const Descriptor file(path);
  if (file.size > kMaxFileBytes) {
    raise<FileError>("{}: {} bytes are more than the limit of {} for one picture", path, file.size,
                     kMaxFileBytes);
  }
  out.resize(static_cast<size_t>(file.size));
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::read(file.fd, out.data() + done, out.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) raise<FileError>("{}: cannot read: {}", path, std::strerror(errno));
    if (n == 0) raise<FileError>("{}: became shorter while it was read", path);
    done += static_cast<size_t>(n);
  }
}

int64_t memory_budget() {
  return static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE) / 2;
}

EmptyFolders::EmptyFolders(const std::string& folder) {
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(folder, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "a/b/"
  for (; !error && path.has_relative_path() && !std::filesystem::exists(path, error);
       path = path.parent_path())
    missing_.push_back(path);
}

EmptyFolders::~EmptyFolders() {
  std::error_code error;
  for (const auto& path : missing_)
    if (!std::filesystem::remove(path, error)) return;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(path);
  if (file.size == 0) return;
  void* const data =
      ::mmap(nullptr, static_cast<size_t>(file.size), PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) raise<FileError>("{}: cannot map: {}", path, std::strerror(errno));
  data_ = static_cast<const uint8_t*>(data);
  size_ = static_cast<size_t>(file.size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace brim::data
