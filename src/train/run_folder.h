// The checkpoints in a run's folder: `DIR/checkpoint-00000042` is the state after step 42. One is
// complete or not there: written under another name (".checkpoint-00000042.brim-PID-N.tmp"), every
// file and folder synced, renamed, the parent synced; old ones are removed only after that.
// `DIR/best` links to the best one that is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/run_state.h"

namespace brim::train {

/// The network that a finished run leaves in its folder.
inline constexpr const char* kWeightsFile = "model.safetensors";
/// What its sensors said, what it said at its reports, and what came of it.
inline constexpr const char* kMonitorFile = "monitor.jsonl";
inline constexpr const char* kHistoryFile = "history.jsonl";
inline constexpr const char* kResultFile = "result.json";

/// Whether a run in `folder` makes `path`: the folder itself, its weights, its readings, its
/// checkpoints, what lies in them, or a folder above.
bool belongs_to_run(const std::string& folder, const std::string& path);

/// Makes a folder and those above it. Throws FileError.
void make_folder(const std::string& folder);

/// Paths of all checkpoints below `folder`, the newest first; whether they are sound is not looked
/// at.
std::vector<std::string> list_checkpoints(const std::string& folder);

/// The path of the checkpoint after step `steps`.
std::string checkpoint_path(const std::string& folder, int64_t steps);

/// Writes the checkpoint after step `steps` below `folder` (made if needed), which may hold none of
/// this step, then removes all but the newest `keep` and the best. Returns why DIR/best does not
/// link to the best one, or "". Throws FileError; then the earlier ones are untouched.
std::string save_checkpoint(const std::string& folder, int64_t steps, const BestCheckpoint& best,
                            int64_t keep, const CheckpointWriter& write);

/// Lets DIR/best lead to the checkpoint after step `steps`. It is a convenience: where links cannot
/// be made, or something else has that name, there is none, and the line that is returned says why;
/// it never leads to another one.
std::string link_best(const std::string& folder, int64_t steps);

/// The newest checkpoint that is sound, and the newer ones that are not.
struct FoundCheckpoint {
  std::string path;  ///< "": there is no checkpoint at all
  struct Damaged {
    std::string path, reason;
  };
  std::vector<Damaged> damaged;
};
/// Verifies until one is sound. Throws FileError if there are checkpoints and all are damaged.
FoundCheckpoint find_checkpoint(const std::string& folder);

/// What state.json of the newest checkpoint below `folder` says that can be read, unverified; who
/// loads a checkpoint reports the others. Empty if there is none.
std::optional<RunState> newest_state(const std::string& folder);

/// Renames a damaged checkpoint to NAME.damaged, so that it is out of the way and not lost. Throws
/// FileError.
void set_aside(const std::string& path);

/// Sole use of a run's folder until the end of the object, or of the process, however it ends.
class FolderLock {
 public:
  /// Throws FileError if another process holds it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return fd_ >= 0; }  ///< false on file systems that have no locks

 private:
  int fd_ = -1;
};

/// Removes what killed runs left half written or half removed: only what has a name that
/// save_checkpoint or the writing of the final weights gives, and is what they make under it. The
/// caller holds the folder's lock.
void remove_leftovers(const std::string& folder);

}  // namespace brim::train
