// A training as TensorBoard shows it (`brim train --tensorboard FOLDER`).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <brim/diag/monitor.h>
#include <brim/train/recipe.h>
#include <brim/train/summary_writer.h>
#include <brim/train/trainer.h>

namespace brim::command {

/// Steps are those of the whole run, also where it goes on from a checkpoint. When the file cannot
/// be written any more, it is given up and `warn` is told why: the run is worth more.
class TensorBoardLog {
 public:
  /// Writes the recipe that is trained on `devices` and, where the folder does not have it from
  /// before, the network's graph. `warn` is called by the training's thread. Throws FileError.
  TensorBoardLog(const std::string& folder, const train::Recipe& recipe,
                 const std::vector<Device>& devices, const train::Trainer& trainer,
                 std::function<void(const std::string&)> warn);

  /// Loss, learning rate and rate at reports; at the end of an epoch the validation and histograms
  /// of the weights and of the last step's gradients.
  void add(const train::Progress& progress, nn::Module& model);
  /// Of sensors, by their thread.
  void add(const diag::Reading& reading);
  /// The test, the pictures that it is most wrong about, and where the time went. `tested`: the
  /// loader of the test split, or null.
  void add(const train::TrainResult& result, const data::Loader* tested);

 private:
  template <class F>
  void attempt(const F& action);
  void tell_failure();
  /// Where it cannot be made, warns.
  void add_graph(const train::Recipe& recipe, const train::Trainer& trainer);
  void add(const char* split, const train::Evaluation& evaluation);
  void add_most_wrong(const train::Evaluation& evaluation, const data::Loader& loader);

  const int64_t steps_before_;
  const std::function<void(const std::string&)> warn_;
  std::atomic<int64_t> step_;
  const bool has_graph_;  // in a file of before
  train::SummaryWriter writer_;
  std::mutex mutex_;
  std::string failure_;  // told already where failed_, and it is empty
  std::atomic<bool> failed_{false};
};

}  // namespace brim::command
