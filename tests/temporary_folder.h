// Where a test keeps its files.
#pragma once

#include <stdlib.h>  // mkdtemp is POSIX

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace brim::tests {

/// A new folder below the system's temporary one, which no other test, run or user has; removed
/// with everything in it. Throws std::runtime_error where it cannot be made.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    path_ = (parent / "brim-XXXXXX").string();
    if (!error && !mkdtemp(path_.data())) error.assign(errno, std::generic_category());
    if (error)
      throw std::runtime_error("a temporary folder cannot be made in '" + where(parent) + "': " +
                               error.message() + "; set TMPDIR to a folder that can be written");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  /// temp_directory_path() gives no path where it finds no folder.
  static std::string where(const std::filesystem::path& parent) {
    if (!parent.empty()) return parent.string();
    for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"})
      if (const char* value = getenv(name)) return value;
    return "/tmp";
  }

  std::string path_;
};

}  // namespace brim::tests
