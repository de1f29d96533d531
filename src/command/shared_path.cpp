// Installed files first: a prefix may lie within a source tree.
#include "command/shared_path.h"

namespace brim::command {

namespace fs = std::filesystem;

std::optional<fs::path> shared_path(const fs::path& installed, const fs::path& own) {
  for (fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
       folder != folder.root_path(); folder = folder.parent_path())
    for (const fs::path& path : {installed, own})
      if (fs::exists(folder / path)) return folder / path;
  return {};
}

}  // namespace brim::command
