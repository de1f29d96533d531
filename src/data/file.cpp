// POSIX files behind data/file.h.
#include "data/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "data/descriptor.h"

namespace brim::data {

void read_file(const std::string& path, std::vector<uint8_t>& out) {
  const Descriptor file(path);
  if (file.size() > kMaxFileBytes) {
    raise<FileError>("{}: {} bytes are more than the limit of {} for one picture", path,
                     file.size(), kMaxFileBytes);
  }
  out.resize(static_cast<size_t>(file.size()));
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

}  // namespace brim::data
