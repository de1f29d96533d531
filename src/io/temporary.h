// What is written under a temporary name and renamed when it is complete; and what killed processes
// leave under such names. A running process holds a lock on what it writes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace brim::io {

/// A name beside `path`, .NAME.brim-PID-N.tmp, that this process has not used yet. Nobody else
/// gives such names: what has one may be removed. Where NAME is long, its hash stands for it.
/// Throws FileError if no file can have this name.
std::string temporary_name(const std::string& path);

/// The NAME in what temporary_name() makes, in any process; nothing for any other name.
std::optional<std::string_view> temporary_of(std::string_view name);

/// Marks the open file or folder `path`, just made, as one that is written, for as long as `fd` or
/// a duplicate of it is open. False if another process took it for a leftover before: it is gone.
bool lock_temporary(int fd, const std::string& path);

/// Removes from `folder` what has a temporary name of `of`, is of this type (regular or directory)
/// and belongs to no running process. Where the file system has no locks, nothing.
void remove_leftovers(const std::string& folder, std::string_view of,
                      std::filesystem::file_type type);

/// A new folder that only this user may look into, for what is to be renamed to its place; removed
/// with all that is still in it.
class ScratchFolder {
 public:
  /// Lies in `folder`, hidden, for what will be called `name`; leftovers of others for the same
  /// name are removed. Throws FileError.
  ScratchFolder(const std::string& folder, const std::string& name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  int lock_ = -1;
};

}  // namespace brim::io
