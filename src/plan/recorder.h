// Records a step as a program. Nothing is computed meanwhile: tensors that the step makes have no
// memory, and what it changes on the host (gradients of leaves, generators) is put back.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/program.h"

namespace brim::plan {

/// A leaf's gradient before and after a step.
struct LeafGradient {
  Ref<TensorImpl> leaf;
  Tensor before, after;
  bool cleared;  ///< the step threw it away before it used it
};

/// A tensor that was there before the step, as one of its launches saw it.
struct Seen {
  Ref<TensorImpl> impl;
  Ref<Storage> storage;
  bool requires_grad;
};

/// What a step did.
struct Recording {
  Program program;
  std::vector<LeafGradient> gradients;  ///< of leaves whose gradient the step read or changed
  std::vector<Seen> seen;
  std::vector<backend::HostState> host;
  /// Storages of Role::kept, without memory: the one that others hold, and the program's name for
  /// it.
  std::vector<std::pair<Ref<Storage>, Ref<Storage>>> kept;
};

/// Gives the results of the step for these inputs.
using Step = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

/// Records `step` for inputs of these shapes. A gradient that the step clears before it makes it
/// anew is gone after the step, unless `keep_gradients`. Throws CompileError if it does what a plan
/// cannot repeat, and whatever the step throws. The host's state is put back at once, or by what
/// `undo` gets, called in reverse. `for_passes`: see RecordingListener.
Recording record(const Step& step, std::span<const Tensor> inputs, bool keep_gradients,
                 std::vector<std::function<void()>>* undo = nullptr, bool for_passes = true);

/// How many launches the recording of this thread has so far.
size_t recorded_launches();

/// Memory for what a recording left behind, where somebody computes it after all.
void give_memory(Storage& storage);

}  // namespace brim::plan
