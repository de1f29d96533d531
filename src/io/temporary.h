// What is written under a temporary name and renamed when it is complete; and what killed processes
// leave under such names. A running process holds a lock on what it writes.
#pragma once

#include <string>
#include <string_view>

namespace brim::io {

/// A name beside `path`, PATH.PID-N.tmp, that this process has not used yet.
std::string temporary_name(const std::string& path);

/// Whether `name` is what temporary_name() makes, in any process, of a path whose last part is
/// `of`.
bool is_temporary_name(std::string_view name, std::string_view of);

/// Marks the open file or folder `path`, just made, as one that is written, for as long as `fd` or
/// a duplicate of it is open. False if another process took it for a leftover before: it is gone.
bool lock_temporary(int fd, const std::string& path);

/// Removes from `folder` what has a temporary name of `of` and belongs to no running process. Where
/// the file system has no locks, nothing.
void remove_leftovers(const std::string& folder, std::string_view of);

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
