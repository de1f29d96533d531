// Training from a recipe: loader, network, optimizer, checkpoints, metrics and the account.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <brim/core/device.h>
#include <brim/data/loader.h>
#include <brim/diag/account.h>
#include <brim/nn/module.h>
#include <brim/train/recipe.h>

namespace brim::train {

/// How well a network does on a data set.
struct Evaluation {
  int64_t samples = 0;
  double loss = 0;      ///< mean cross-entropy
  double accuracy = 0;  ///< in [0, 1]
  struct Class {
    std::string name;
    int64_t samples = 0;
    int64_t correct = 0;
    double accuracy() const {
      return samples ? static_cast<double>(correct) / static_cast<double>(samples) : 0;
    }
  };
  std::vector<Class> classes;
};

/// Where a run is. `loss` is the mean since the report before, and NaN until there was one.
struct Progress {
  int64_t epoch = 0, epochs = 0;  ///< epoch counts from 0
  int64_t step = 0, steps = 0;    ///< in this run, and how many it will have
  int64_t epoch_step = 0;         ///< in this epoch
  int64_t images = 0;             ///< in this run
  double images_per_s = 0;        ///< since the report before
  double seconds_left = 0;
  double loss = 0;
  bool report = false;  ///< the loss was just read; otherwise only the counts moved on
};

struct TrainOptions {
  Device device = {};
  int workers = -1;           ///< loader threads; -1: chosen
  int64_t max_steps = 0;      ///< stop after so many steps of this run; 0: all epochs
  std::string out;            ///< folder of model.safetensors and checkpoints; "": write nothing
  std::string resume;         ///< folder to go on from; "": begin anew
  bool account = true;        ///< measure where the time goes
  double tick_seconds = 0.1;  ///< between calls of `progress` without a report
  int64_t reports_per_epoch = 10;
  std::function<void(const Progress&)> progress;
  /// How much is done of "open" (reading a tar) and "evaluate".
  std::function<void(const char* stage, double fraction)> stage;
  std::function<void()> first_step;  ///< called before the first step begins
  /// Not 0: finish the step, then stop. While the data is opened: stop with an Error.
  const std::atomic<int>* stop = nullptr;
};

struct TrainResult {
  int64_t steps = 0, images = 0;
  int64_t epochs_done = 0;  ///< whole epochs, those before a resume included
  double seconds = 0;       ///< of the training loop
  double images_per_s = 0;
  double us_per_step = 0;  ///< median time from the start of a step to the start of the next
  double final_loss = 0;   ///< mean over the last report's steps
  int64_t skipped = 0;     ///< corrupt samples left out
  bool stopped = false;    ///< by TrainOptions::stop
  std::optional<Evaluation> test;  ///< by run(); empty if the data has no test split, or on a stop
  diag::Account account;           ///< of the training loop
};

/// A run that is ready to start: both splits open, network made, checkpoint loaded.
class Trainer {
 public:
  /// Throws ValueError, FileError, DeviceError. With `options.resume`, `recipe` must agree with the
  /// checkpoint's in everything that changes results but the number of epochs and the data's place.
  Trainer(const Recipe& recipe, TrainOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// train(), then test() unless the training was stopped.
  TrainResult run();

  /// Trains, writes checkpoints and the weights. Throws FileError, ValueError.
  TrainResult train();
  /// Evaluates on the test split; empty if there is none, or on a stop. Throws FileError.
  std::optional<Evaluation> test();

  nn::Module& model();
  const data::Loader& loader() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The recipe stored in the last checkpoint of a run's folder. Throws FileError.
Recipe checkpoint_recipe(const std::string& folder);

/// Evaluates on every sample of the loader. Each class's count stays on the device until the end.
/// `progress` is told the fraction done; returning false stops with an Error. Throws FileError for
/// a damaged picture, and when not one could be read.
Evaluation evaluate(nn::Module& model, const data::Loader& loader, Device device,
                    const std::function<bool(double fraction)>& progress = {});

/// The loader that a recipe describes for one split. `training` switches augmentation and shuffling
/// on. Throws FileError and ValueError.
data::Loader make_loader(const Recipe& recipe, data::Split split, bool training, int workers = -1,
                         const data::OpenProgress& progress = {});

}  // namespace brim::train
