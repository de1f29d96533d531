// Checkpoints of a run: one fresh folder each, `DIR/checkpoint-0003` for the end of epoch 3. It is
// complete or not there: written under another name, synced, renamed; the one before is removed
// after that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <brim/core/random.h>
#include <brim/core/state_dict.h>
#include <brim/train/recipe.h>

namespace brim::train {

struct Checkpoint {
  int64_t epochs = 0;  ///< whole epochs that were trained
  int64_t steps = 0;   ///< since the very start
  RandomKey random;    ///< state of Generator::global()
  Recipe recipe;
  std::vector<std::string> classes;  ///< of the training data, by label
  StateDict model;
  StateDict optimizer;
  StateDict schedule;
};

/// Writes the checkpoint below `folder` (made if needed) and removes those of earlier epochs.
/// Throws FileError; then the earlier ones are untouched.
void save_checkpoint(const std::string& folder, const Checkpoint& checkpoint);

/// The path of the last checkpoint below `folder`, or "" when there is none.
std::string last_checkpoint(const std::string& folder);

/// Reads one and checks it against its manifest. Throws FileError naming the file that is missing
/// or damaged.
Checkpoint load_checkpoint(const std::string& path);

/// Only what state.json says. Throws FileError.
Checkpoint load_checkpoint_state(const std::string& path);

/// Makes a folder and those above it. Throws FileError.
void make_folder(const std::string& folder);

}  // namespace brim::train
