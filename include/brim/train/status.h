// What a training does right now. It publishes that on a board some ten times a second and never
// waits for those who look there.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <brim/core/allocator.h>
#include <brim/core/device.h>
#include <brim/diag/account.h>
#include <brim/diag/activity.h>
#include <brim/train/trainer.h>

namespace brim::train {

/// How far a run is.
enum class RunPhase : uint8_t {
  starting,    ///< data is opened, the network made
  training,    ///< steps run
  evaluating,  ///< on a split
  finished,    ///< all epochs are done
  stopped,     ///< it was asked to stop
  failed       ///< it ended with an error
};

/// What is known of a device of a run.
struct DeviceStatus {
  Device device;          ///< which one
  diag::Account account;  ///< of the training so far; without one its wall time is 0
  double recorded = 1;    ///< see diag::Sampling
  MemoryStats memory;     ///< of its allocator, in bytes
};

/// What a run does now.
struct RunStatus {
  RunPhase phase = RunPhase::starting;  ///< how far it is
  const char* stage = nullptr;          ///< see TrainOptions::stage; null: none of them
  double stage_fraction = 0;            ///< done of it
  std::optional<double> paused;         ///< seconds that it waits for hot devices by now
  double updated = 0;  ///< when it last published or moved on in a stage; Unix seconds
  int64_t epoch = 0, epochs = 0, step = 0, steps = 0, images = 0;  ///< as in Progress
  int64_t round = 0, rounds = 0;  ///< as in Progress; `rounds` is 0 but in iterative pruning
  double images_per_s = std::numeric_limits<double>::quiet_NaN();  ///< NaN: not known yet
  /// By the rate so far; NaN: not known yet.
  double seconds_left = std::numeric_limits<double>::quiet_NaN();
  /// Mean since the report before; NaN: not known yet.
  double loss = std::numeric_limits<double>::quiet_NaN();
  /// Of the next step; NaN: not known yet.
  double learning_rate = std::numeric_limits<double>::quiet_NaN();
  int64_t skipped = 0, checkpoints = 0, checkpoint_failures = 0;  ///< as in TrainResult
  int workers = 0, slots = 0;                                     ///< of the first rank's loader
  int64_t ready_batches = 0;                                      ///< see data::Loader
  std::vector<DeviceStatus> devices;                              ///< of this process
  /// By device, what the thread of its rank is doing now; none while nothing is measured.
  std::vector<std::optional<diag::Doing>> doing;
  std::shared_ptr<const Evaluation> validation;  ///< the newest; null: none yet
  int64_t validation_epoch = 0;                  ///< the epoch that it is of, from 0
  std::shared_ptr<const std::vector<diag::OpTime>>
      ops;  ///< TrainResult::ops so far; null: none yet
};

/// Where a training publishes (TrainOptions::board). It outlives the training, and is of one at a
/// time.
class StatusBoard {
 public:
  /// `devices`: TrainOptions::devices.
  explicit StatusBoard(const std::vector<Device>& devices);
  ~StatusBoard();
  StatusBoard(const StatusBoard&) = delete;
  StatusBoard& operator=(const StatusBoard&) = delete;

  /// For any thread, at any time.
  RunStatus read() const;

  // What follows is for the training.

  void set_phase(RunPhase phase);                      ///< what read() shows from now on
  void set_stage(const char* stage, double fraction);  ///< a literal
  /// Seconds that a pause for heat lasts by now; below 0: there is none.
  void set_paused(double seconds);
  /// The newest evaluation of the validation split, behind `epoch`.
  void set_validation(const Evaluation& evaluation, int64_t epoch);
  void set_ops(std::vector<diag::OpTime> ops);  ///< as TrainResult::ops, so far
  void set_activity(size_t rank, std::shared_ptr<const diag::Activity> activity);  ///< null: none
  /// Between two trainings: read() shows nothing of the first one but its phase.
  void clear();
  struct Rank;  ///< of a process, in the order of its devices; src/train/status_board.h
  Rank& rank(size_t index);
  size_t size() const { return count_; }  ///< ranks of this process

 private:
  void write_first(size_t rank, Device device);

  std::atomic<RunPhase> phase_{RunPhase::starting};
  std::atomic<const char*> stage_{nullptr};
  std::atomic<double> stage_fraction_{0}, paused_{-1}, moved_on_;  // moved_on_: Unix seconds
  std::unique_ptr<Rank[]> ranks_;
  size_t count_;
  mutable std::mutex mutex_;  // of what follows, held to copy pointers
  std::shared_ptr<const Evaluation> validation_;
  int64_t validation_epoch_ = 0;
  std::shared_ptr<const std::vector<diag::OpTime>> ops_;
  std::vector<std::shared_ptr<const diag::Activity>> activities_;
};

}  // namespace brim::train
