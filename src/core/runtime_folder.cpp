#include "core/runtime_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/check.h"
#include "core/environment.h"

namespace brim {
namespace {

[[noreturn]] void refuse(const std::string& folder, const std::string& why) {
  raise<FileError>("[run] {} {}; set BRIM_RUNTIME_DIR to a folder of your own", folder, why);
}

}  // namespace

std::string runtime_folder() {
  if (std::string folder = environment("BRIM_RUNTIME_DIR"); !folder.empty()) return folder;
  if (const std::string folder = environment("XDG_RUNTIME_DIR"); !folder.empty())
    return folder + "/brim";
  return fmt::format("/tmp/brim-{}", getuid());
}

std::string make_runtime_folder() {
  const std::string folder = runtime_folder();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    refuse(folder, fmt::format("cannot be made: {}", std::system_category().message(errno)));
  struct stat found {};
  if (lstat(folder.c_str(), &found) != 0)
    refuse(folder, fmt::format("cannot be read: {}", std::system_category().message(errno)));
  if (!S_ISDIR(found.st_mode)) refuse(folder, "is no folder");
  if (found.st_uid != geteuid()) refuse(folder, "belongs to another user");
  if ((found.st_mode & 022) != 0) refuse(folder, "may be written to by other users");
  return folder;
}

}  // namespace brim
