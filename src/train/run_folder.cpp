// Checkpoints come and go by rename, so no name ever leads to half of one (see run_folder.h).
#include "train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "core/check.h"
#include "core/write_cure.h"
#include "io/atomic_file.h"
#include "io/paths.h"
#include "io/temporary.h"
#include "train/checkpoint_files.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kBest = "best";

bool all_digits(std::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string name_of(int64_t steps) { return fmt::format("{}{:08}", kPrefix, steps); }

/// The number in "checkpoint-00000042", or -1.
int64_t number_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  const std::string digits = name.substr(kPrefix.size());
  return all_digits(digits) ? std::stoll(digits) : -1;
}

/// Whether this is a checkpoint, the link or the final weights, half made or half unmade.
bool is_leftover(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const std::string of(io::temporary_of(name).value_or(""));
  std::error_code ignored;
  switch (entry.symlink_status(ignored).type()) {
    case fs::file_type::directory:
      return number_of(of) >= 0;
    case fs::file_type::symlink:
      return of == kBest;
    case fs::file_type::regular:
      return of == kWeightsFile;
    default:
      return false;
  }
}

/// What lies in a folder; nothing in one that is not there. Throws FileError: a folder that cannot
/// be read must not look empty.
std::vector<fs::directory_entry> entries(const std::string& folder) {
  std::vector<fs::directory_entry> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(*it);
  BRIM_CHECK(!error || error == std::errc::no_such_file_or_directory, FileError,
             "[checkpoint] the folder {} cannot be read: {}; check its permissions and the disk",
             folder, error.message());
  return found;
}

/// Checkpoints by number.
std::map<int64_t, fs::path> numbered(const std::string& folder) {
  std::map<int64_t, fs::path> found;
  for (const fs::directory_entry& entry : entries(folder)) {
    const int64_t number = number_of(entry.path().filename().string());
    std::error_code ignored;
    if (number >= 0 && entry.is_directory(ignored)) found[number] = entry.path();
  }
  return found;
}

/// Removes the half-written folder when something goes wrong.
struct Scratch {
  fs::path path;
  ~Scratch() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

/// By a rename first: a kill amid the removal leaves no half checkpoint under its name.
void remove_checkpoint(const fs::path& path) {
  const fs::path scratch = io::temporary_name(path.string());
  std::error_code error;
  fs::rename(path, scratch, error);
  if (!error) fs::remove_all(scratch, error);
}

}  // namespace

std::string link_best(const std::string& folder, int64_t steps) {
  const fs::path link = fs::path(folder) / kBest;
  const std::string target = name_of(steps);
  std::error_code error;
  const fs::file_status there = fs::symlink_status(link, error);
  if (fs::exists(there) && !fs::is_symlink(there))
    return fmt::format(
        "{} is no link and stays, so it does not name the best checkpoint, {}; move it away",
        link.string(), target);
  if (fs::is_symlink(there) && fs::read_symlink(link, error) == target) return "";
  const fs::path scratch = io::temporary_name(link.string());
  fs::create_symlink(target, scratch, error);
  if (!error) fs::rename(scratch, link, error);
  if (!error) return "";
  const std::string reason = error.message();
  fs::remove(scratch, error);
  if (fs::is_symlink(there)) fs::remove(link, error);
  return fmt::format("{} cannot be made a link to the best checkpoint, {}: {}; check the folder",
                     link.string(), target, reason);
}

bool belongs_to_run(const std::string& folder, const std::string& path) {
  const fs::path root = io::real_path(folder), real = io::real_path(path);
  if (io::lies_in(root, real)) return true;
  if (!io::lies_in(real, root)) return false;
  const std::string name = *real.lexically_relative(root).begin();
  for (const char* own : {kWeightsFile, kMonitorFile, kHistoryFile, kResultFile})
    if (name == own) return true;
  return name == kBest || number_of(name) >= 0;
}

void make_folder(const std::string& folder) {
  const char* const otherwise = "choose another TrainOptions::out";
  make_folders("checkpoint", folder, otherwise);
  BRIM_CHECK(access(folder.c_str(), R_OK) == 0, FileError,
             "[checkpoint] the folder {} cannot be read: {}; let this user read it (chmod), or {}",
             folder, io::error_text(errno), otherwise);
}

std::string checkpoint_path(const std::string& folder, int64_t steps) {
  return (fs::path(folder) / name_of(steps)).string();
}

std::vector<std::string> list_checkpoints(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& [number, path] : numbered(folder)) paths.push_back(path.string());
  std::reverse(paths.begin(), paths.end());
  return paths;
}

std::string save_checkpoint(const std::string& folder, int64_t steps, const BestCheckpoint& best,
                            int64_t keep, const CheckpointWriter& write) {
  make_folder(folder);
  const fs::path root(folder);
  const std::string name = name_of(steps);
  Scratch scratch{io::temporary_name((root / name).string())};
  std::error_code error;
  fs::remove_all(scratch.path, error);
  BRIM_CHECK(fs::create_directory(scratch.path, error), FileError,
             "[checkpoint] {} cannot be made: {}", scratch.path.string(),
             write_failure(error.value(), "choose another TrainOptions::out"));
  write(scratch.path, best);
  fs::rename(scratch.path, root / name, error);
  BRIM_CHECK(!error, FileError, "[checkpoint] {} cannot be put in place: {}; check the disk",
             (root / name).string(), error.message());
  scratch.path.clear();
  io::sync_folder(folder);

  const auto all = numbered(folder);
  std::string no_link = all.contains(best.steps) ? link_best(folder, best.steps) : "";
  int64_t newer = 0;
  for (auto it = all.rbegin(); it != all.rend(); ++it, ++newer)
    if (newer >= keep && it->first != best.steps) remove_checkpoint(it->second);
  return no_link;
}

FoundCheckpoint find_checkpoint(const std::string& folder) {
  FoundCheckpoint found;
  for (const std::string& path : list_checkpoints(folder)) {
    try {
      verify_checkpoint(path);
      found.path = path;
      return found;
    } catch (const FileError& e) {
      found.damaged.push_back({path, e.what()});
    }
  }
  BRIM_CHECK(found.damaged.empty(), FileError,
             "[resume] {}: no checkpoint is sound (the newest: {}); start anew in another folder",
             folder, found.damaged.front().reason);
  return found;
}

std::optional<RunState> newest_state(const std::string& folder) {
  try {
    for (const std::string& path : list_checkpoints(folder)) {
      try {
        return load_checkpoint_state(path);
      } catch (const Error&) {
      }
    }
  } catch (const FileError&) {  // of the folder
  }
  return {};
}

void set_aside(const std::string& path) {
  std::error_code error;
  fs::remove_all(path + ".damaged", error);
  fs::rename(path, path + ".damaged", error);
  BRIM_CHECK(!error, FileError,
             "[resume] {} is damaged and cannot be renamed: {}; move it away, or go on in another "
             "folder (TrainOptions::out)",
             path, error.message());
}

FolderLock::FolderLock(const std::string& folder)
    : fd_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  BRIM_CHECK(fd_ >= 0, FileError,
             "[train] the folder {} cannot be opened: {}; check its permissions", folder,
             io::error_text(errno));
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  close(fd_);
  fd_ = -1;
  BRIM_CHECK(
      error != EWOULDBLOCK, FileError,
      "[train] another run, or another Checkpoint, is training in {}; wait for its end, or choose "
      "another folder; of several ranks one alone writes",
      folder);
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

void remove_leftovers(const std::string& folder) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (const fs::directory_entry& entry : entries(folder))
    if (is_leftover(entry)) leftovers.push_back(entry.path());
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

}  // namespace brim::train
