#include "io/paths.h"

#include <algorithm>
#include <system_error>

namespace brim::io {

namespace fs = std::filesystem;

fs::path real_path(const std::string& path) {
  std::error_code error;
  const fs::path full = fs::absolute(path, error);
  fs::path real = fs::weakly_canonical(full, error);
  if (error) real = full.lexically_normal();               // a folder that cannot be looked into
  return real.has_filename() ? real : real.parent_path();  // "a/b/"
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

}  // namespace brim::io
