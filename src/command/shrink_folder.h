// The folder of a search in --out: its state, and the networks that it has made, as files.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "command/shrink_request.h"
#include "command/shrink_state.h"
#include "train/run_folder.h"

namespace brim::command {

class ShrinkFolder {
 public:
  /// Throws UsageError where the search would replace what is no search's, or was not asked to;
  /// removes an earlier search with --overwrite.
  static void prepare(const ShrinkArguments& o);

  /// Makes and locks it. Throws FileError.
  explicit ShrinkFolder(const std::string& out);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const;
  std::string dense_file() const { return file("dense.safetensors"); }
  std::string width_file(size_t width) const;
  std::string point_file(size_t point) const;

  /// What an earlier search for the same has left, but for what is of files that are gone or not
  /// the same any more; empty: there was none. Throws FileError as ShrinkState::load() does.
  std::optional<ShrinkState> load(const Json& asked) const;

 private:
  const std::string path_;
  std::optional<train::FolderLock> lock_;
};

}  // namespace brim::command
