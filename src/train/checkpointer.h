// When a run writes checkpoints, and what happens when it cannot.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <brim/train/trainer.h>

namespace brim::train {

/// The epoch end with the lowest score: its mean loss, or what the validation split says, negated
/// where higher is better.
struct BestCheckpoint {
  int64_t steps = 0;  ///< 0: there is none yet
  double score = 0;
};

/// Writes the files of a checkpoint into an empty folder. Throws FileError.
using CheckpointWriter = std::function<void(const std::string& path, const BestCheckpoint& best)>;

class Checkpointer {
 public:
  using Warn = std::function<void(const std::string& line)>;

  /// A run that begins after step `steps` with `best` among the folder's checkpoints. `folder` "":
  /// nothing is ever written. Throws ValueError for options out of range.
  Checkpointer(std::string folder, const CheckpointOptions& options, int64_t steps,
               BestCheckpoint best, Warn warn);

  /// Whether the interval is over after step `steps`, the last of `count` that were one launch.
  bool due(int64_t steps, int64_t count) const;

  /// Writes the state, unless the one after the same step was written or this run began there.
  /// `make` takes the snapshot; `score`: at the end of an epoch, see BestCheckpoint. A FileError of
  /// the disk is counted and told once until it is over, as is a DIR/best that cannot be linked;
  /// training goes on and the next interval tries again. Returns whether the state is kept.
  bool save(int64_t steps, const std::function<CheckpointWriter()>& make,
            std::optional<double> score = {});

  int64_t written() const { return written_; }
  int64_t failures() const { return failures_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string folder_;
  CheckpointOptions options_;
  Warn warn_;
  BestCheckpoint best_;
  int64_t saved_steps_;  // the step whose state needs no writing
  Clock::time_point last_try_ = Clock::now();
  int64_t written_ = 0, failures_ = 0;
  bool failing_ = false, without_link_ = false;
};

}  // namespace brim::train
