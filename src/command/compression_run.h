// What commands that make a network smaller share: a trainer with the network's weights, its
// evaluations before and after, and the time of its forward pass.
#pragma once

#include <brim/diag/monitor.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command/command.h"
#include "command/live_run.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/tensorboard_log.h"
#include "command/watch_options.h"
#include "core/clock.h"

namespace brim::command {

/// What all of them are asked.
struct CompressionArguments : WatchArguments {
  std::string recipe, weights, data, out, device = "auto", json;
  std::optional<double> lr;
  std::optional<int64_t> batch;
  int threads = 0;

  /// Adds what has the same meaning for all.
  void add_to(Arguments args);
};

/// The asked recipe, or the weights' own, with what the arguments change; `what` names the command.
train::Recipe recipe_of(const CompressionArguments& o, const char* what);

/// Throws UsageError where --tensorboard has nothing to show, for there is no training.
void check_finetune(const CompressionArguments& o, int64_t epochs);

/// Checks outputs, the command's own ones too, and the launch, chooses the device and calls `body`
/// with it.
int run_compression(const CompressionArguments& o, const char* what,
                    const std::vector<NamedPath>& more_outputs,
                    const std::function<int(Device)>& body);

class CompressionRun {
 public:
  using Json = nlohmann::ordered_json;

  /// `trained_in`: where checkpoints go; empty: there are none.
  CompressionRun(const CompressionArguments& o, const char* what, Device device,
                 train::Recipe recipe, const std::string& trained_in);
  ~CompressionRun();
  CompressionRun(const CompressionRun&) = delete;
  CompressionRun& operator=(const CompressionRun&) = delete;

 protected:
  /// Where a training begins, and where its checkpoints go; an empty folder: there are none.
  struct Beginning {
    std::string weights, folder = {};
    bool resumes = false;  ///< from a checkpoint in the folder, where there is one
  };
  /// Another training, in place of the one that there was.
  void begin(const train::Recipe& recipe, const Beginning& from);
  /// That training; `part` of several is its folder in that of TensorBoard.
  train::TrainResult train(const std::string& part = "");
  /// How far it is with something else: a literal, and a fraction.
  void show(const char* what, double fraction);
  /// That is over, or an evaluation: what comes next is no training yet.
  void done();
  /// An evaluation on the test split, with "accuracy_difference" of classes: by how much that
  /// differs from the first evaluation's, with the interval that the same samples tell of it.
  struct Evaluated {
    train::Evaluation evaluation;
    Json json;
  };
  /// Reported as `what`. Empty where there is no test split, and on a stop. Throws ValueError where
  /// the loss is not finite.
  std::optional<Evaluated> evaluated(const std::string& what);
  /// The same, in the JSON under `key`.
  void evaluate(const char* what, const char* key);
  /// Throws UsageError where a name, given to `option`, is of no convolution or linear layer.
  void check_layer_names(const char* option, const std::vector<std::string>& names);
  /// Of the training split in a drawn order, without augmentation: batches of at most 64.
  std::vector<Tensor> calibration_inputs(int64_t samples);
  /// A batch of random numbers; undefined for other tasks than classification.
  Tensor random_batch(int64_t samples) const;
  /// The median time of the network's forward pass as a compiled step, in seconds, measured for so
  /// many; 0 on a stop.
  double forward_seconds(const Tensor& x, double measured_for = 0.3);
  /// That in batches of 1 and of 16, before and after `change`; reported, and in the JSON's "times"
  /// as `before`_s and `after`_s. Nothing but `change` for other tasks than classification.
  void report_times(const char* before, const char* after, const std::function<void()>& change);
  /// Writes the JSON at the end, for `brim report` into the folder, too.
  void write();
  bool is_stopped() const { return stop_ != 0; }
  /// Exit status of a stopped run.
  int stopped(const std::string& what_to_do);

  const CompressionArguments& o_;
  const bool quiet_;
  const char* const what_;
  const Device device_;
  const train::Recipe recipe_;
  ProgressDisplay display_;
  const std::atomic<int>& stop_;
  LiveRun live_;
  std::optional<train::Trainer> trainer_;  // never empty
  Json json_;

 private:
  train::TrainOptions options(const Beginning& from);
  void warn(const std::string& line);
  void keep(const diag::Reading& reading);
  void show(const train::Progress& progress);
  void end(train::RunPhase phase);
  void warn_of_files();
  /// Whether each sample's class is predicted right; empty for other tasks.
  std::vector<bool> right_samples();

  const double began_ = steady_seconds();
  std::vector<bool> right_before_;             // of the first evaluation
  train::Recipe trained_recipe_;               // the trainer's
  train::TrainResult trained_;                 // of the newest training
  std::mutex mutex_;                           // of what follows, against the thread of the sensors
  std::optional<TensorBoardLog> tensorboard_;  // of a training, until the next one begins
  std::optional<diag::Monitor> monitor_;       // ends first
};

}  // namespace brim::command
