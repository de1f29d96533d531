// Training from a recipe: loader, network, optimizer, checkpoints, metrics and the account.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <brim/core/device.h>
#include <brim/data/device_loader.h>
#include <brim/data/loader.h>
#include <brim/diag/account.h>
#include <brim/diag/op_profile.h>
#include <brim/dist/process_group.h>
#include <brim/nn/module.h>
#include <brim/plan/compile.h>
#include <brim/train/checkpoint.h>
#include <brim/train/recipe.h>
#include <brim/train/task.h>

namespace brim::train {

/// How well a network does on a data set.
struct Evaluation {
  int64_t samples = 0;  ///< that were evaluated
  int64_t skipped = 0;  ///< corrupt ones that were left out
  double loss = 0;      ///< of the task, over the samples; batches weigh by their samples
  /// A metric's value.
  struct Value {
    std::string name;              ///< of the metric
    double value = 0;              ///< NaN where it is not defined
    bool higher_is_better = true;  ///< of the metric
    bool is_fraction = false;      ///< in [0, 1]: shown as per cent
  };
  std::vector<Value> metrics;  ///< in the order of the recipe, or the task
  /// How well one class is recognised.
  struct Class {
    std::string name;     ///< of the class
    int64_t samples = 0;  ///< of pictures with masks: pixels
    int64_t correct = 0;  ///< recognised
    /// In [0, 1].
    double accuracy() const {
      return samples ? static_cast<double>(correct) / static_cast<double>(samples) : 0;
    }
  };
  std::vector<Class> classes;  ///< of tasks that count by class
  /// How many of each class the network took for which: [class][what it said], as many as
  /// `classes`. Empty for tasks that do not count by class, and for more than 200.
  std::vector<std::vector<int64_t>> confusion;
  /// A sample that was not recognised.
  struct Wrong {
    int64_t sample = 0;        ///< of the split
    int64_t is = 0, said = 0;  ///< classes
    double probability = 0;    ///< that it gave to `said`
    double loss = 0;           ///< cross-entropy
  };
  /// The samples with the highest loss whose class was not recognised, the worst first; for tasks
  /// of one class a sample, where it was asked for.
  std::vector<Wrong> most_wrong;

  /// Throws IndexError, with the names that there are.
  double metric(std::string_view name) const;
  double accuracy() const { return metric("accuracy"); }  ///< in [0, 1]
};

/// Where a run is. `loss` is the mean since the report before, and NaN until there was one.
struct Progress {
  int64_t epoch = 0, epochs = 0;  ///< epoch counts from 0; in each round of iterative pruning
  int64_t round = 0, rounds = 0;  ///< of iterative pruning, behind the dense training (round 0)
  int64_t step = 0, steps = 0;    ///< in this run, and how many it will have
  int64_t epoch_step = 0;         ///< in this epoch
  int64_t images = 0;             ///< in this run
  double images_per_s = 0;        ///< since the report before
  double seconds_left = 0;        ///< by the rate so far
  double loss = 0;                ///< mean since the report before; NaN until there was one
  double learning_rate = 0;       ///< of the next step
  bool report = false;            ///< the loss was just read; otherwise only the counts moved on
  bool epoch_done = false;        ///< and the epoch is over, its checkpoint kept
  const Evaluation* validation = nullptr;  ///< then, where there is a validation split
  bool best = false;                       ///< it is better than in all epochs before
};

using data::AugmentOn;

class HeatGuard;
class StatusBoard;
enum class RunPhase : uint8_t;

/// Options of Trainer.
struct TrainOptions {
  /// One, or several that share each batch equally: ranks of this process, a thread and a network
  /// for each, of which the first one is what Trainer's functions tell of.
  std::vector<Device> devices = {Device::cpu()};
  /// The processes that share each batch, one device each; null: this one alone. Rank 0 writes
  /// files, and tests; all share the validation split. The group is used by the training alone.
  dist::GroupPtr group = {};
  int workers = -1;  ///< loader threads, which devices share, one each at least; -1: chosen by each
  /// Where pictures are cropped, mirrored and normalised.
  AugmentOn augment_on = AugmentOn::automatic;
  /// Upload all pictures once, as bytes, and make batches there: nothing is read or copied per
  /// step.
  bool data_on_device = false;
  /// So many steps are queued as one launch (on cuda: one graph), with data_on_device. Those at the
  /// end of an epoch that do not fill it run singly; reports, checkpoints and stops come after
  /// whole launches. The weights are the same, bit for bit.
  int64_t steps_per_graph = 1;
  /// Every step gets the first batch again: what a training costs whose input is free. It learns
  /// little. Not with data_on_device.
  bool repeat_batch = false;
  /// Devices and processes exchange gradients. Without, each goes on with its own part of them:
  /// what a training costs whose links are free, and no weights to keep. Not with `out`.
  bool exchange_gradients = true;
  int64_t max_steps = 0;  ///< stop after so many steps of this run; 0: all epochs
  std::string out = {};   ///< folder of model.safetensors and checkpoints; "": write nothing
  /// File of weights that the network begins with (fine-tuning), of brim or PyTorch; "": with
  /// initial values. A checkpoint that the run goes on from has its own.
  std::string weights = {};
  /// Folder to go on from; "": begin anew. One that holds no checkpoint yet begins anew too.
  std::string resume = {};
  /// Go on from a checkpoint of another precision: its weights and optimizer are f32 in all of
  /// them.
  bool change_precision = false;
  /// Go on with steps that are compiled otherwise (`compile`, `passes`) than the checkpoint's: its
  /// sums are then taken in another order.
  bool change_compile = false;
  CheckpointOptions checkpoint = {.background = true};  ///< when checkpoints are written
  bool compile = true;                                  ///< record the step and replay it as a plan
  std::string passes = {};                              ///< of the plan, see CompileOptions::passes
  bool account = true;                                  ///< measure where the time goes
  /// The last step of each epoch leaves its gradients in the parameters' grad() until `progress`
  /// has seen them, also where steps are compiled: by a plan of its own. Of several ranks, what
  /// rank 0 asks for holds.
  bool keep_gradients = false;
  double tick_seconds = 0.1;       ///< between calls of `progress` without a report
  int64_t reports_per_epoch = 10;  ///< calls of `progress` with a fresh loss
  int64_t report_every = 0;  ///< steps from one report to the next; 0: as reports_per_epoch says
  /// Is told where the run is: at each report and, between them, every tick_seconds.
  std::function<void(const Progress&)> progress = {};
  /// How much is done of "open" (reading a tar), "upload" (of data on the device), "measure
  /// layouts" (by a compiled step, once on a machine) and "evaluate".
  std::function<void(const char* stage, double fraction)> stage = {};
  std::function<void()> first_step = {};  ///< called before the first step begins
  /// Where the training publishes what it does (status.h), made for these devices; null: nowhere.
  StatusBoard* board = nullptr;
  /// Asked between steps whether they must wait (heat_guard.h); null: they never do.
  HeatGuard* heat = nullptr;
  /// Told what went wrong and is no end of the run: damaged checkpoints, a full disk.
  std::function<void(const std::string& line)> warn = {};
  /// Not 0: finish the step, write a checkpoint, then stop. While the data is opened: stop with an
  /// Error.
  const std::atomic<int>* stop = nullptr;
};

/// `options` with what the recipe says of speed.
TrainOptions with_speed(TrainOptions options, const SpeedRecipe& speed);
/// What a recipe says for such options.
SpeedRecipe speed_of(const TrainOptions& options);

/// What came of a training.
struct TrainResult {
  int64_t steps = 0, images = 0;              ///< of this run, by all ranks
  int64_t total_steps = 0, total_images = 0;  ///< those before a resume included
  int64_t epochs_done = 0;                    ///< whole epochs, those before a resume included
  double seconds = 0;                         ///< of the training loop
  double images_per_s = 0;                    ///< of the training loop
  double us_per_step = 0;  ///< median time from the start of a step to the start of the next
  double final_loss = 0;   ///< mean over the last report's steps
  double loss_scale = 0;   ///< at the end, in fp16; else 0
  int64_t skipped = 0;     ///< corrupt samples left out or replaced, those before a resume included
  int64_t checkpoints = 0, checkpoint_failures = 0;  ///< written by this run; not written
  int64_t heat_pauses = 0;                           ///< by TrainOptions::heat, of any rank
  double heat_seconds = 0;                           ///< in these
  bool stopped = false;                              ///< by TrainOptions::stop
  bool augmented_on_device = false;                  ///< what TrainOptions::augment_on came to
  int64_t resident_bytes = 0;                        ///< of the data on the device
  CompileStats compile;            ///< `fell_back` says why the step ran eagerly, if it did
  std::string plan;                ///< the plans explained; "" for eager steps
  std::optional<Evaluation> test;  ///< by run(); empty if the data has no test split, or on a stop
  std::optional<Evaluation> validation;  ///< after the last epoch that this run finished
  bool stopped_early = false;            ///< by ValidationRecipe::patience
  /// Where the time of a device went.
  struct DeviceAccount {
    Device device;          ///< whose
    diag::Account account;  ///< its wall time by cause
    double recorded = 1;    ///< share of the time with records of its work; see diag::Sampling
  };
  /// Of a device's training, by clocks that no account reads.
  struct DeviceClock {
    Device device;                 ///< whose
    double seconds = 0;            ///< std::chrono::steady_clock
    std::optional<double> worked;  ///< it computed, talked and copied; where that is counted apart
  };
  std::vector<DeviceClock> clocks;      ///< as `accounts`
  diag::Account account;                ///< of the training loop, on the first device
  std::vector<DeviceAccount> accounts;  ///< on all of them
  /// Which kernels the first device computed, of some steps after each report; empty without an
  /// account.
  std::vector<diag::OpTime> ops;
  PlanTimeline timeline;  ///< of the newest plan; empty for eager steps
};

/// A run that is ready to start: all splits open, network made, checkpoint loaded. Random numbers
/// are drawn from Generator::global(): trainings of several threads have a GeneratorScope each, and
/// devices of their own.
class Trainer {
 public:
  /// Throws ValueError, FileError, DeviceError. With `options.resume`, `recipe` must agree with the
  /// checkpoint's in everything that changes results but the number of epochs, the data's place
  /// and, with TrainOptions::change_precision, the precision, and its steps must be compiled alike
  /// unless TrainOptions::change_compile is set; damaged checkpoints are told
  /// (TrainOptions::warn) and an older one is taken; it is a FileError when all are damaged, or
  /// when there is no such folder and `options.out` is another.
  Trainer(const Recipe& recipe, TrainOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// train(), then save() and test() unless the training was stopped.
  TrainResult run();

  /// Trains and writes checkpoints; one that cannot be written is counted and told, no error.
  /// Throws FileError, ValueError.
  TrainResult train();
  /// Writes the weights to `out`, if there is one. Throws FileError.
  void save();
  /// Evaluates on the test split, the most wrong samples included; empty if there is none, on a
  /// stop, and in ranks other than 0. Throws FileError.
  std::optional<Evaluation> test();
  /// Evaluates on the validation split as train() does after an epoch, on all devices; empty if
  /// there is none, and on a stop, of any rank where they share it. Throws FileError.
  std::optional<Evaluation> validate();

  nn::Module& model();                      ///< what is trained, on the first device
  const data::Loader& loader() const;       ///< of the training split
  const TaskData& data() const;             ///< of the training split
  const data::Loader* test_loader() const;  ///< of the test split; null where there is none
  /// How batches come to be, in a line: "pictures as bytes, augmented on cuda:0".
  std::string input() const;
  /// The checkpoint that this run goes on from; "" at the very beginning.
  const std::string& resumed_from() const;
  int64_t steps_before() const;   ///< trained before this run
  int64_t virtual_ranks() const;  ///< parts that a batch is cut into

  struct State;

 private:
  void set_phase(RunPhase phase) const;
  class Ranks;
  std::unique_ptr<Ranks> ranks_;  // of this process
};

/// The recipe stored in the last sound checkpoint of a run's folder. Throws FileError.
Recipe checkpoint_recipe(const std::string& folder);

/// Evaluates on every sample of the loader, which feeds one device, as the recipe's task does; sums
/// stay on the device until the end. `data` says what the network puts out. `progress` is told the
/// fraction done; returning false stops with an Error. Throws FileError for a damaged sample, and
/// when not one could be read; ValueError for several devices, and for metrics of another task.
/// `most_wrong`: how many entries Evaluation::most_wrong may have.
Evaluation evaluate(nn::Module& model, data::DeviceLoader& loader, const Recipe& recipe,
                    const TaskData& data, const std::function<bool(double fraction)>& progress = {},
                    int64_t most_wrong = 0);
/// Of labelled pictures: cross-entropy and accuracy.
Evaluation evaluate(nn::Module& model, data::DeviceLoader& loader,
                    const std::function<bool(double fraction)>& progress = {});
/// The same for a loader of the host, whose batches are copied to `device`.
Evaluation evaluate(nn::Module& model, const data::Loader& loader, Device device,
                    const std::function<bool(double fraction)>& progress = {});

/// Where the batches of a loader will be used.
struct LoaderPlace {
  Device target = Device::cpu();           ///< which device they go to
  AugmentOn augment_on = AugmentOn::host;  ///< where pictures are cropped, mirrored and normalised
  int rank = 0, world_size = 1;            ///< of training data; see LoaderOptions
  int64_t virtual_ranks = 1;               ///< parts that a batch is cut into
};

/// A split of a recipe's data, and the loader of it.
struct OpenSplit {
  TaskData data;        ///< what it holds and what the network must put out
  data::Loader loader;  ///< of its batches
};
/// `training` switches augmentation and shuffling on. With AugmentOn::device the loader's batches
/// are raw. `like`: see DataRequest. Throws FileError and ValueError.
OpenSplit open_split(const Recipe& recipe, data::Split split, bool training, int workers = -1,
                     const data::OpenProgress& progress = {}, const LoaderPlace& place = {},
                     const TaskData* like = nullptr);
/// The loader alone.
data::Loader make_loader(const Recipe& recipe, data::Split split, bool training, int workers = -1,
                         const data::OpenProgress& progress = {}, const LoaderPlace& place = {});

/// The recipe's network for such data. Throws ValueError.
std::unique_ptr<nn::Module> make_network(const Recipe& recipe, const TaskData& data, Device device);

}  // namespace brim::train
