// The pruning of a training: masks of what the recipe says of each epoch, and the rounds of
// iterative pruning, which take the run back to where it was.
#pragma once

#include <brim/compress/prune.h>

#include <cstdint>
#include <optional>

#include "train/trainer_state.h"

namespace brim::train {

/// What PruneRecipe::scope names.
compress::PruneScope scope_of(const PruneRecipe& prune);

class Pruner {
 public:
  /// Of a run where it begins; the state is kept by reference.
  explicit Pruner(Trainer::State& state);

  /// To what the recipe says of the epoch where the run is.
  void prune();
  /// Whether the sparsity rises still: the network is another one than what is asked for.
  bool is_not_sparse_yet() const;
  /// Behind a step, and before one that clips gradients: see compress::Masks.
  void apply();
  void apply_to_gradients();
  /// To be trained from where the run is, those of all rounds.
  int64_t epochs_left() const;
  /// Between two epochs: keeps what rounds are rewound to, and begins the next round where one has
  /// ended. Returns whether it did: what is compiled is of tensors of before.
  bool begin_round();

 private:
  double sparsity_now() const;
  /// Weights, optimizer and schedule as they are, or of PruneRecipe::rewind_weights.
  StateDict remembered() const;
  void rewind();

  Trainer::State& s_;
  std::optional<compress::Masks> masks_;
  double pruned_to_ = 0;  // so far
};

}  // namespace brim::train
