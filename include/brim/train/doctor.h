// Finds what keeps a training's device waiting, proves it by trials, and tries what cures it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <brim/data/worker_account.h>
#include <brim/diag/account.h>
#include <brim/train/recipe.h>
#include <brim/train/trainer.h>

namespace brim::train {

/// A value and its 95 % interval (Student's t): of speedups by their logarithms, of shares and
/// times by the jackknife.
struct Estimate {
  double value = 0, low = 0, high = 0;  ///< the value, and the ends of the interval
};

/// What the device's time went to instead of computing.
struct CauseCost {
  diag::Cause cause = diag::Cause::other;  ///< what the device waited for
  Estimate share;                          ///< of the training's time
  double seconds_per_step = 0;             ///< lost to it
  std::vector<std::string> because;        ///< what Evidence says of it, a sentence each
};

/// What the machine and the loader's workers did during short trainings, their start included.
struct Evidence {
  data::WorkerAccount workers;  ///< of all of them together
  double worker_count = 0;      ///< mean
  int cpus = 0;                 ///< that this process may use
  /// Whose time it used, and other processes.
  std::optional<double> cores, other_cores;
  std::optional<double> throttled;  ///< cores whose time the cgroup's quota kept from threads
  /// Share of the time in which some task of the machine waited for it.
  std::optional<double> memory_pressure, io_pressure;
  std::optional<double> storage;  ///< bytes/s that this process got from there, not from memory
  std::string eager;              ///< why steps are not compiled; empty: they are
};

/// What short trainings show.
struct Diagnosis {
  int runs = 0;               ///< short trainings that were measured
  Estimate seconds_per_step;  ///< of the wall time
  Estimate busy;              ///< share of the time in which the first device computed
  /// Those of at least DoctorOptions::least_share, the dearest first.
  std::vector<CauseCost> causes;
  /// Measured: how many times as fast the training is when every step gets the same batch, so that
  /// nothing is read, decoded or copied. Empty where input costs too little to be tried, and with
  /// data on the device.
  std::optional<Estimate> without_input;
  /// The same of a training whose devices exchange no gradients. Empty where exchanges, and waiting
  /// for them, cost too little to be tried.
  std::optional<Estimate> without_exchange;
  Evidence evidence;  ///< empty of a run that was written down
};

/// What came of a change.
enum class Verdict : uint8_t {
  faster,         ///< beyond doubt: the change is kept
  learns_less,    ///< it is faster, and LearningCheck found more lost than it allows
  slower,         ///< beyond doubt: it is not kept
  no_difference,  ///< that is larger than DoctorOptions::least_gain
  undecided,      ///< after DoctorOptions::max_pairs
  failed,         ///< the training did not run with the change
};
/// In words: "faster", "no difference", ...
const char* name(Verdict verdict);

/// What is learned with a change and without: trainings of as many samples each, from the
/// beginning, in pairs with one seed. Means, on the test split.
struct LearningCheck {
  /// What was learned.
  struct Result {
    double loss = 0;    ///< on the test split
    double metric = 0;  ///< the recipe's first
  };
  std::string metric;               ///< its name
  bool is_fraction = false;         ///< the metric
  Result untrained, before, after;  ///< before the trainings; without the change; with it
  int pairs = 0;                    ///< of trainings
  int64_t samples = 0;              ///< of each training
  /// Too little is learned in so many samples to tell one from the other: the loss falls by less
  /// than a twentieth.
  bool is_undecided = false;
  /// The loss falls 95 % as far as without the change, and of the metric no more is lost than a
  /// point where it is a fraction, else 2 %.
  bool is_enough = false;
};

/// A change that was tried.
struct Trial {
  std::string what;                      ///< "4 loader workers"
  std::string options;                   ///< of `brim train`: "--workers 4"
  Verdict verdict = Verdict::undecided;  ///< what came of it
  Estimate speedup;                      ///< time of a sample before, over that with the change
  int pairs = 0;  ///< of short trainings, with the change and without, in turns
  std::optional<LearningCheck> check;  ///< of what is faster and another training
  std::string failure;                 ///< why the training did not run with it; else empty
};

/// What came of the trials. `Setting`: what a training is begun with.
template <class Setting>
struct CureOf {
  Diagnosis before, after;    ///< without the changes, and with those that were kept
  std::vector<Trial> trials;  ///< in the order in which they were made
  /// All changes that were kept against none, measured at the end; empty where none was kept. If
  /// that is not faster, they were all taken back.
  std::optional<Estimate> speedup;
  Setting setting;  ///< what to train with: the one given, with the changes that were kept
  /// Trial::options of these, in their order: a later one may stand for an earlier one.
  std::vector<std::string> changes;
  bool same_bits = true;  ///< none of them touches a bit of the weights
  std::string failure;    ///< why all that was kept did not run together; then nothing is kept
};

/// What a Trainer is made with.
struct TrainSetting {
  Recipe recipe = {};         ///< of a cure, with [speed] as `options` are
  TrainOptions options = {};  ///< of the training
};
using Cure = CureOf<TrainSetting>;  ///< Of a recipe's training.

/// Options of Doctor and LoopDoctor.
struct DoctorOptions {
  /// Changes that round otherwise may be tried, too: all passes of the plan, and tf32.
  bool allow_rounding = false;
  /// And those that make it another training: bf16; larger batches, with the learning rate that
  /// goes with them. They are kept where LearningCheck finds enough learned.
  bool allow_precision = false, allow_batch = false;
  int check_pairs = 3;        ///< of trainings, for LearningCheck
  double check_seconds = 20;  ///< of each training of it; the recipe's epochs at most
  double seconds = 0.25;      ///< that a short training is measured, once its queues are full
  int min_pairs = 3, max_pairs = 12;  ///< of short trainings, for one change
  double least_share = 0.02;          ///< of the time; smaller causes are not named
  double least_gain = 0.01;           ///< of the time; less is no difference, and not treated
  /// Told before each training: of what, and how much of its trial is done; it may end sooner.
  std::function<void(const std::string& what, double fraction)> progress = {};
  /// Told what was found, before a change is tried.
  std::function<void(const Diagnosis& diagnosis)> diagnosed = {};
  /// Told of each trial once it is over.
  std::function<void(const Trial& trial)> tried = {};
  /// Not 0: stop as soon as possible; what was found so far is returned, and no change is kept.
  const std::atomic<int>* stop = nullptr;
};

/// By short trainings from the beginning of the data: nothing is written, and the training that
/// follows is another one. No change touches a bit of the weights, but for those that are allowed.
class Doctor {
 public:
  /// `options`: as for Trainer; what they write (out, resume, board, heat, ...) is left out. Throws
  /// ValueError for other options out of range, and for a group of ranks.
  Doctor(const Recipe& recipe, TrainOptions options, DoctorOptions how = {});

  /// Throws what Trainer does.
  Diagnosis diagnose();
  /// Tries changes one at a time, those first that may gain most, and keeps what is faster.
  Cure cure();

 private:
  TrainSetting setting_;
  DoctorOptions how_;
};

}  // namespace brim::train
