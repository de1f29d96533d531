#include "core/write_cure.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/check.h"

namespace brim {
namespace {

const char* cure_of(int error) {
  switch (error) {
    case EROFS:
      return "mount it for writing (docker run -v /host/runs:/runs without :ro, in a pod readOnly: "
             "false)";
    case ENOSPC:
    case EDQUOT:
      return "free space there, take a larger volume";
    case EACCES:
    case EPERM:
      return "let this user write there (chown, chmod; in a pod securityContext.fsGroup)";
    case ENOENT:
      return "make the folder first";
    case EFBIG:
      return "raise the limit of a file's size (ulimit -f)";
    case EIO:
      return "check the disk";
    default:
      return nullptr;
  }
}

/// What another place does not help against.
const char* cure_here(int error) {
  switch (error) {
    case EMFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENFILE:
      return "the system has too many open files; end what holds them";
    case ENOMEM:
      return "free memory, or take a machine with more";
    default:
      return nullptr;
  }
}

}  // namespace

std::string write_cure(int error, const std::string& otherwise) {
  if (const char* const here = cure_here(error)) return here;
  const char* const cure = cure_of(error);
  return cure == nullptr ? otherwise : fmt::format("{}, or {}", cure, otherwise);
}

std::string write_failure(int error, const std::string& otherwise) {
  return fmt::format("{}; {}", std::generic_category().message(error),
                     write_cure(error, otherwise));
}

void make_folders(const std::string& place, const std::string& folder,
                  const std::string& otherwise) {
  namespace fs = std::filesystem;
  std::error_code error, ignored;
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder, ignored)) error.assign(ENOTDIR, std::generic_category());
  BRIM_CHECK(!error, FileError, "[{}] the folder {} cannot be made: {}", place, folder,
             write_failure(error.value(), otherwise));
  const int refused =
      access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;  // the whole volume may be read-only
  BRIM_CHECK(refused == 0, FileError, "[{}] the folder {} cannot be written: {}", place, folder,
             write_failure(refused, otherwise));
}

}  // namespace brim
