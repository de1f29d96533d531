// Checkpoints of a training loop of one's own, with the guarantees of those of a Trainer: a
// checkpoint is complete or not there, whatever kills the process; damage is found by hashes, and
// an older one is taken then; a full disk does not end the run; and a loop that goes on from amid
// an epoch ends with the bits of the one that was never stopped.
//
//   train::Checkpoint checkpoint("run");
//   checkpoint.add("model", net);
//   checkpoint.add("optimizer", optimizer);
//   checkpoint.add("data", loader);
//   train::LoopPosition at = checkpoint.resume();  // the beginning, where there is none yet
//   for (; at.epoch < epochs; at = {at.epoch + 1, 0, at.steps}) {
//     for (data::Batch& batch : feed.epoch(at.epoch, at.batch)) {
//       step(batch);
//       at.batch = batch.index + 1, ++at.steps;
//       if (checkpoint.due(at)) checkpoint.save(at);
//     }
//     checkpoint.save({at.epoch + 1, 0, at.steps});
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <brim/core/random.h>
#include <brim/core/state_dict.h>
#include <brim/core/tensor.h>
#include <brim/data/loader.h>
#include <brim/dist/process_group.h>
#include <brim/nn/module.h>
#include <brim/optim/grad_scaler.h>
#include <brim/optim/optimizer.h>
#include <brim/optim/schedule.h>

namespace brim::train {

/// When a run with a folder writes checkpoints beside the one at the end of each epoch, and how
/// many of them stay.
struct CheckpointOptions {
  int64_t every_steps = 0;    ///< counted since the very start; 0: not by steps
  double every_seconds = 60;  ///< after the one before, at the end of a step; 0: not by time
  int64_t keep = 2;           ///< so many of the newest stay, 1 or more, and the best one
  /// Written by a thread of its own from a copy on the host, while training goes on. The next
  /// checkpoint waits for its end, and so does the end of the run.
  bool background = false;
  /// Of a run of several ranks: each writes its part of the tensors, into a folder that all hosts
  /// see, as NAME-00001-of-00004.safetensors with NAME.safetensors.index.json beside it (Hugging
  /// Face's layout, which io::SafeTensors reads as one file). Any number of ranks goes on from it.
  bool sharded = false;
};

/// Where a loop is between two steps.
struct LoopPosition {
  int64_t epoch = 0;  ///< whole epochs behind
  int64_t batch = 0;  ///< the next one of the current epoch
  int64_t steps = 0;  ///< since the very start; it names the checkpoint
};

/// The checkpoints of one run in a folder of its own: DIR/checkpoint-00000042 is the state after
/// step 42, DIR/best links to the best one. In each, NAME.safetensors is the state of the object
/// that was added as NAME. Generator::global() is part of every one. Objects must outlive this. For
/// one thread.
class Checkpoint {
 public:
  /// Is given a line about what went wrong.
  using Warn = std::function<void(const std::string& line)>;
  /// What saves and loads an object of one's own.
  struct State {
    std::function<StateDict()> save = {};  ///< its state, with the names that load() knows
    /// Throws ValueError for the state of something else.
    std::function<void(const StateDict&)> load = {};
  };

  /// Makes the folder and locks it until the end of the object or the process. `warn` is told what
  /// went wrong and is no end of the run; without it, standard error is. Throws FileError, also
  /// where another process holds the folder; ValueError for options out of range.
  explicit Checkpoint(const std::string& folder, const CheckpointOptions& options = {},
                      Warn warn = {});
  /// Of a loop that ranks run: rank 0 writes, and all go on from what it found. All ranks make one,
  /// add the same and call resume(), which waits for all; due() is false in the others, and save()
  /// does nothing there. `folder` is one place for all of them. Make a DataParallel behind
  /// resume(). With CheckpointOptions::sharded all of them call save() at the same steps, for which
  /// due() asks every_steps alone. Throws as the other one, in rank 0.
  Checkpoint(const std::string& folder, dist::GroupPtr group, const CheckpointOptions& options = {},
             Warn warn = {});
  ~Checkpoint();
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  // A name has letters, digits, '_', '-' and '.', and is no file's that a checkpoint has anyway.
  // All throw ValueError for a bad one and one that was added before, and after resume() or save().
  ///@{
  /// Adds an object, whose state_dict() is kept; a generator's place likewise.
  void add(const std::string& name, nn::Module& module);
  void add(const std::string& name, optim::Optimizer& optimizer);
  void add(const std::string& name, optim::Schedule& schedule);
  void add(const std::string& name, optim::GradScaler& scaler);
  void add(const std::string& name, Generator& generator);
  ///@}
  /// A loop that goes on amid an epoch must have the same one: its numbers, sampler, buckets and
  /// collate, as far as these say what they are. Of iterable data its state is kept, so that
  /// DeviceLoader::epoch() goes on from there; save() throws ValueError where it has none, and for
  /// a place that is not that of one of the last batches. Throws ValueError for a second loader:
  /// there is one place in an epoch; and, in several ranks, for iterable data, of which each rank
  /// has a state of its own.
  void add(const std::string& name, const data::Loader& loader);
  /// An object of one's own.
  void add(const std::string& name, State state);
  /// Values: a tensor on any device, which is written in place (one that is undefined is replaced),
  /// and numbers and text, bit for bit.
  void add(const std::string& name, Tensor& value);
  ///@{
  /// A value of the host.
  void add(const std::string& name, int64_t& value);
  void add(const std::string& name, double& value);
  void add(const std::string& name, std::string& value);
  ///@}

  /// Loads the newest sound checkpoint into everything that was added, and says where the loop goes
  /// on; the beginning where there is no checkpoint. Damaged ones are told and renamed to
  /// NAME.damaged. Throws FileError where all are damaged, and where one does not fit what was
  /// added: then some of it may be loaded.
  LoopPosition resume();

  /// Whether CheckpointOptions ask for a checkpoint at `at`; call it after each step, or launch of
  /// several. Not at the end of an epoch of a loader that was added and knows it: the loop saves
  /// after it.
  bool due(const LoopPosition& at);

  /// Writes the state of everything that was added, unless that of this step is kept already.
  /// `loss`: at the end of an epoch, what the best checkpoint is the lowest of. A disk that is full
  /// or fails is told once, the last checkpoint stays, and the next save() tries again. Returns
  /// whether the state of this step is kept, or, in the background, is being written. Throws
  /// ValueError for a position below 0; FileError where the folder holds checkpoints that resume()
  /// was not called for.
  bool save(const LoopPosition& at, std::optional<double> loss = {});
  /// Waits for what is written in the background. Returns whether nothing failed since the last
  /// checkpoint that is kept.
  bool finish();

  const std::string& resumed_from() const;  ///< the checkpoint; "" at the very beginning
  int64_t written() const;                  ///< by this object
  int64_t failures() const;                 ///< not written

  /// The newest sound checkpoint in a run's folder, "" if there is none (one in the background is
  /// there behind finish()): for weights alone,
  /// io::load_safetensors(Checkpoint::newest("run") + "/model.safetensors"). Throws FileError where
  /// all are damaged.
  static std::string newest(const std::string& folder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace brim::train
