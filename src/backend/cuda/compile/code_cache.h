// Compiled code that is kept between runs, a file a program. Nothing depends on it: without a file,
// or with one that is stale or damaged, the program is compiled again.
#pragma once

#include <atomic>
#include <optional>
#include <string>

namespace brim::cuda {

/// May be used by several threads and processes.
class CodeCache {
 public:
  /// "" for none.
  explicit CodeCache(std::string folder) : folder_(std::move(folder)) {}

  /// The code kept under that name, if it was compiled from the same: `key` is all that it depends
  /// on. Warns of a file that is stale or damaged.
  std::optional<std::string> find(const std::string& name, const std::string& key) const;
  /// Warns, once, where it cannot be written.
  void keep(const std::string& name, const std::string& key, const std::string& code);

 private:
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  std::atomic<bool> warned_{false};
};

}  // namespace brim::cuda
