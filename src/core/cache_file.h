// Files that brim keeps between runs to save time, in `$XDG_CACHE_HOME/brim` or `~/.cache/brim`.
// Nothing depends on them: without a file, or with a damaged one, the work is done again.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace brim {

/// The path of a cache file; empty where there is no home for it.
std::string cache_path(const std::string& file);

/// Writes a cache file whole, as readers see it, and the folders it lies in. False if that fails.
bool write_cache_file(const std::string& path, std::string_view bytes);

/// What was measured: values by what they are of, by the machine they were measured on.
template <class Value>
using Measured = std::map<std::string, std::map<std::string, Value>>;

/// Adds what a JSON file has to `all`; a file that is not there, or "", has nothing. Value: a time
/// in seconds (double) or a choice (text). False, and `why`, with nothing in `all`, if it cannot be
/// trusted.
template <class Value>
bool read_measured(const std::string& path, Measured<Value>& all, std::string& why);

/// Adds to `all` what others have written to the file meanwhile, leaves out what read_measured()
/// would not trust, and writes it; only what is of
/// `machine` if that were too much for a file (100000 values, 32 MiB), and nothing if that is too
/// much, too: `all` begins anew then. False if it cannot be written.
template <class Value>
bool write_measured(const std::string& path, Measured<Value>& all, const std::string& machine);

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
  std::string path_, machine_;
  mutable std::mutex mutex_;
  Measured<std::string> all_;
  std::atomic<bool> warned_{false};
};

}  // namespace brim
