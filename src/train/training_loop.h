// The training loop. Per step it reads nothing from the device: the loss is summed there and read
// once per report. With the data on the device, several steps may be one launch; reports,
// checkpoints and stops then come after whole launches. What a step or a report changes that a
// resumed run must know is in State::at or in the meter, and reports stand at places that only the
// recipe decides.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <brim/diag/sampling.h>
#include <brim/dist/process_group.h>
#include <brim/plan/compile.h>

#include "train/checkpoint_shards.h"
#include "train/checkpointer.h"
#include "train/loss_meter.h"
#include "train/op_windows.h"
#include "train/pruner.h"
#include "train/status_publisher.h"
#include "train/step_clock.h"
#include "train/trainer_state.h"

namespace brim::train {

class TrainingLoop {
 public:
  /// The sampling is told where windows of records may begin and end, at reports.
  TrainingLoop(Trainer::State& state, Measuring measuring);
  /// Trains to the end or until it is stopped, and fills in `result`.
  void run(TrainResult& result);

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  }

  /// Returns whether the epoch was finished.
  bool run_epoch();
  /// Queues the steps of one launch. Returns how many: 0 at the end of the epoch.
  int64_t queue_steps(data::DeviceEpoch& epoch);
  /// As DeviceEpoch::next(), but for TrainOptions::repeat_batch.
  const data::Batch* next_batch(data::DeviceEpoch& epoch);
  /// How many steps come next in one launch, making their batches themselves; 0: the next batch
  /// comes from the epoch, because it is no full one, or nothing of the kind is compiled.
  int64_t take_steps(data::DeviceEpoch& epoch);
  /// Whether the plan that comes next is the one that keeps the gradients: of the epoch's last
  /// batch, with TrainOptions::keep_gradients.
  bool keep_gradients_of(int64_t batch);
  /// Forward, backward, update, and the next learning rate.
  void step(const data::Batch& batch);
  CompileOptions compile_options(bool keep_gradients = false);
  /// Nothing is compiled before the first step.
  void compile_steps();
  /// Of a batch, without copying.
  std::vector<data::Batch> parts_of(const data::Batch& batch) const;
  void tell_compiled(TrainResult& result) const;
  /// `loss`, and that of imitating the teacher's output for x.
  Tensor imitating(const Tensor& loss, const Tensor& output, const Tensor& x) const;
  /// All of it but the learning rate, which a plan reads anew. Adds up the loss. `parts`: of the
  /// batch, one for each of this rank's virtual ranks.
  void update(std::span<const data::Batch> parts);
  /// Waits for them. Throws DistError if another rank is gone.
  LossSum read_losses();
  void report();
  void publish();
  void tell(bool is_report);
  /// Whether it is time to, between two reports.
  bool tell_is_due() const;
  /// In the `background`, if the options say so.
  void save(bool background, std::optional<double> score = {});
  /// The end of an epoch on the validation split: its score, see BestCheckpoint; empty where there
  /// is none. Returns whether it was done; not on a stop.
  bool validate(std::optional<double>& score);
  bool out_of_patience() const {
    const int64_t patience = s_.recipe.validation.patience;
    return patience > 0 && at_.epochs_since_best >= patience;
  }
  /// Throws ValueError for NaN and infinity.
  void check_loss(double loss) const;
  /// For its message: which part of a batch was the first, " (...)"; "" where there are none.
  std::string where_not_finite() const;
  /// What all ranks settle several times a second: whether they go on, whether it is time for a
  /// checkpoint that they write together, and whether one of them has to cool down.
  void agree();
  /// While a device of this process is too hot; of several ranks, of any.
  void wait_for_heat();
  /// Asked by all ranks at once, which settle whether to stop, too; false if they do.
  bool some_rank_is_hot();
  int64_t epochs_done() const;
  /// Corrupt samples of all ranks; those of others up to the last time that ranks agreed.
  int64_t skipped() const { return skipped_before_ + feed_.skipped() + skipped_by_others_; }
  /// Takes in what others skipped; all ranks call it at once.
  void share_skipped();
  /// Of each rank's text, whose last word says it.
  void take_skipped(const std::vector<std::string>& ranks);
  bool more() const { return progress_.step < progress_.steps && !s_.stop_asked(); }

  Trainer::State& s_;
  Position& at_;
  const int64_t per_epoch_, report_every_, skipped_before_;
  LossMeter losses_;
  diag::Sampling* const sampling_;
  data::DeviceLoader& feed_;
  Pruner pruner_;
  using ResidentStep = CompiledStep<std::function<void()>>;  // makes its batch, too
  std::optional<plan::Compiler> compiled_, keeping_;
  std::optional<ResidentStep> resident_, resident_keeping_;
  bool keeps_gradients_ = false;         // of the step before
  std::optional<data::Batch> repeated_;  // of TrainOptions::repeat_batch
  std::vector<Tensor> inputs_;           // of compiled_, while it runs: the tensors of a batch
  StepClock clock_;
  OpWindows ops_;
  std::optional<CheckpointShards> shards_;  // of ranks that write together
  Checkpointer checkpointer_;
  Progress progress_;
  StatusPublisher publisher_;
  std::optional<Evaluation> validation_;
  Clock::time_point begin_, last_report_, last_tick_;
  int64_t reported_images_ = 0, skipped_by_others_ = 0;
  dist::GroupPtr control_;                           // of agree(); null without other ranks
  int64_t next_agreement_ = 1, last_agreement_ = 0;  // steps
  Clock::time_point agreed_at_;
  bool save_agreed_ = false;
};

}  // namespace brim::train
