// When a run writes checkpoints, and what happens when it cannot.
#pragma once

#include <chrono>
#include <functional>
#include <future>
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

/// What a checkpoint will hold.
struct Snapshot {
  CheckpointWriter write;
  bool is_copy = false;  ///< it shares no memory with what is trained, and may be written meanwhile
};

class CheckpointShards;

class Checkpointer {
 public:
  using Warn = std::function<void(const std::string& line)>;

  /// A run that begins after step `steps` with `best` among the folder's checkpoints. `folder` "":
  /// nothing is ever written. `shards`: of ranks that write together; all have a Checkpointer of
  /// rank 0's folder, and save at the same steps. Throws ValueError for options out of range.
  Checkpointer(std::string folder, const CheckpointOptions& options, int64_t steps,
               BestCheckpoint best, Warn warn, CheckpointShards* shards = nullptr);
  /// finish().
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// Whether the interval is over after step `steps`, the last of `count` that were one launch. Of
  /// ranks that write together, that of steps: what time it is they settle themselves.
  bool due(int64_t steps, int64_t count) const;
  /// Whether the interval of time is over.
  bool overdue() const;

  /// Writes the state, unless the one after the same step was written or this run began there.
  /// A copy is written by a thread of its own. `score`: at the end of an epoch, see BestCheckpoint.
  /// A FileError of the disk is counted and told once until it is over, as is a DIR/best that
  /// cannot be linked; training goes on and the next interval tries again. Returns whether the
  /// state is kept or being written.
  bool save(int64_t steps, const std::function<Snapshot()>& make, std::optional<double> score = {});
  /// Waits for the one that is being written, and tells how it went. Returns whether the last one
  /// is kept.
  bool finish();

  int64_t written() const { return written_; }
  int64_t failures() const { return failures_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Written {
    int64_t steps = 0;
    BestCheckpoint best;
    std::string no_link, error;  ///< "" where there is none
  };
  void take(const Written& written);
  Written write(int64_t steps, const BestCheckpoint& best, const CheckpointWriter& writer) const;
  void warn(const std::string& line) const;

  std::string folder_;
  CheckpointOptions options_;
  Warn warn_;
  CheckpointShards* const shards_;  // null for one that writes alone
  BestCheckpoint best_;
  int64_t saved_steps_;  // the step whose state needs no writing
  Clock::time_point last_try_ = Clock::now();
  int64_t written_ = 0, failures_ = 0;
  bool failing_ = false, without_link_ = false;
  std::future<Written> writing_;
};

}  // namespace brim::train
