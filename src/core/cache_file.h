// Files that brim keeps between runs to save time, in `$XDG_CACHE_HOME/brim` or `~/.cache/brim`.
// Nothing depends on them: without a file, or with a damaged one, the work is done again.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace brim {

/// The path of a cache file; empty where there is no home for it.
std::string cache_path(const std::string& file);

/// Keeps other threads and processes from writing a file at the same time, by a lock file of this
/// path. Where that cannot be, or somebody holds the lock for long, it does nothing: at worst work
/// is done again.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

/// Writes `text` beside its place under a name of its own and renames it, so that readers see all
/// of it or nothing. False if that failed.
bool replace_file(const std::string& path, const std::string& text);

/// Choices that were measured once, such as the fastest algorithm for a product: short texts by
/// problem, kept in a JSON file. Choices of other machines and versions stand beside them and are
/// not used. May be used by several threads.
class ChoiceFile {
 public:
  /// Reads the file; "" for none. A damaged one is left out of account with a warning, and written
  /// anew. `machine`: all that choices depend on beside the problem.
  ChoiceFile(std::string path, std::string machine);

  /// Whether a later run will find what is kept, as far as one knows.
  bool are_kept() const { return !path_.empty() && !warned_; }
  std::optional<std::string> find(const std::string& problem) const;
  /// Writes the file, with what others have added to it meanwhile; a warning if that fails.
  void keep(const std::string& problem, const std::string& choice);

 private:
  using Choices = std::map<std::string, std::string>;
  using Machines = std::map<std::string, Choices>;
  static bool read(const std::string& path, Machines& all, std::string& why);

  std::string path_, machine_;
  mutable std::mutex mutex_;
  Machines all_;
  std::atomic<bool> warned_{false};
};

}  // namespace brim
