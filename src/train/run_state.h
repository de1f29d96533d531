// What a Trainer's checkpoint holds (see checkpoint_files.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <brim/compress/prune.h>
#include <brim/core/random.h>
#include <brim/core/state_dict.h>
#include <brim/train/recipe.h>

#include "train/checkpoint_shards.h"
#include "train/checkpointer.h"

namespace brim::train {

/// A sum of losses and how many steps are in it.
struct LossSum {
  double sum = 0;
  int64_t steps = 0;
  /// NaN without steps.
  double mean() const {
    return steps ? sum / static_cast<double>(steps) : std::numeric_limits<double>::quiet_NaN();
  }
};

/// Where a run is between two steps. Counts are since the very start.
struct Position {
  int64_t epoch = 0;        ///< whole epochs behind
  int64_t batch = 0;        ///< batches of the current epoch behind
  int64_t epoch_steps = 0;  ///< steps in the current epoch; fewer, where whole batches were corrupt
  int64_t steps = 0, images = 0;
  int64_t skipped = 0;                                          ///< corrupt samples
  LossSum unreported;                                           ///< since the last report
  LossSum epoch_reported;                                       ///< of this epoch's reports
  double last_loss = std::numeric_limits<double>::quiet_NaN();  ///< of the last report
  // Of the validation split: the best epoch's score, NaN where there is none, and how many epochs
  // came after it.
  double best_score = std::numeric_limits<double>::quiet_NaN();
  int64_t epochs_since_best = 0;
  int64_t round = 0;  ///< of iterative pruning; 0: nothing is pruned yet
};

/// TrainOptions::compile and passes: they change the order of sums, and so the last bits.
struct StepMode {
  bool compile = true;
  std::string passes;
};

struct RunState {
  Position at;
  BestCheckpoint best;
  RandomKey random;  ///< state of Generator::global()
  Recipe recipe;
  int64_t samples = 0;               ///< of an epoch, of all ranks
  int64_t virtual_ranks = 1;         ///< that a batch was cut into
  std::string devices;               ///< that the run used: "sim:0,sim:1"
  std::string isa;                   ///< of the CPU's kernels, "avx2"; empty in older checkpoints
  std::optional<StepMode> mode;      ///< empty in checkpoints of before it was kept
  std::vector<std::string> classes;  ///< of the training data, by label
  std::vector<std::string> columns;  ///< of a table, those of x
  std::vector<std::string> targets;  ///< and those of y
  Shape input;                       ///< of one x; for the weights' metadata alone
  StateDict model;
  StateDict optimizer;
  StateDict schedule;
  StateDict scaler;                      ///< numbers; empty unless the run is in fp16
  compress::OutputGroups output_groups;  ///< of a run that prunes in vectors
  StateDict rewind;                      ///< what rounds of pruning go back to, or empty
  std::string teacher;                   ///< hash of its file; "": there is none
};

/// Writes all files into the empty folder `path`, each of them and the folder synced. Throws
/// FileError.
void write_checkpoint(const std::string& path, const RunState& checkpoint);

/// For save_checkpoint() and for Checkpointer::save(), there as a copy where it is to be written in
/// the `background` and there is memory for one. `shards`: of a run whose ranks write it together.
CheckpointWriter writer_of(RunState state);
Snapshot snapshot_of(RunState state, bool background, CheckpointShards* shards = nullptr);

/// Reads one, verified. Throws FileError.
RunState load_checkpoint(const std::string& path);

/// Only what state.json says, not verified. Throws FileError.
RunState load_checkpoint_state(const std::string& path);

}  // namespace brim::train
