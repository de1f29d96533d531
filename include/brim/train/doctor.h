// Finds what keeps a training's device waiting, proves it by trials, and tries what cures it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <brim/diag/account.h>
#include <brim/train/recipe.h>
#include <brim/train/trainer.h>

namespace brim::train {

/// A value and its 95 % interval (Student's t): of speedups by their logarithms, of shares and
/// times by the jackknife.
struct Estimate {
  double value = 0, low = 0, high = 0;
};

/// What the device's time went to instead of computing.
struct CauseCost {
  diag::Cause cause = diag::Cause::other;
  Estimate share;  ///< of the training's time
  double seconds_per_step = 0;
};

struct Diagnosis {
  int runs = 0;  ///< short trainings that were measured
  Estimate seconds_per_step;
  Estimate busy;  ///< share of the time in which the first device computed
  /// Those of at least DoctorOptions::least_share, the dearest first.
  std::vector<CauseCost> causes;
  /// Measured: how many times as fast the training is when every step gets the same batch, so that
  /// nothing is read, decoded or copied. Empty where input costs too little to be tried, and with
  /// data on the device.
  std::optional<Estimate> without_input;
};

enum class Verdict : uint8_t {
  faster,  ///< beyond doubt: the change is kept
  slower,
  no_difference,  ///< that is larger than DoctorOptions::least_gain
  undecided,      ///< after DoctorOptions::max_pairs
  failed,         ///< the training did not run with the change
};
const char* name(Verdict verdict);

/// A change that was tried.
struct Trial {
  std::string what;     ///< "4 loader workers"
  std::string options;  ///< of `brim train`: "--workers 4"
  Verdict verdict = Verdict::undecided;
  Estimate speedup;  ///< time of a step before, over that with the change
  int pairs = 0;     ///< of short trainings, with the change and without, in turns
  std::string failure;
};

/// What came of the trials.
struct Cure {
  Diagnosis before, after;
  std::vector<Trial> trials;  ///< in the order in which they were made
  /// All changes that were kept against none, measured at the end; empty where none was kept. If
  /// that is not faster, they were all taken back.
  std::optional<Estimate> speedup;
  TrainOptions options;  ///< what to train with: the ones given, with the changes that were kept
  /// Trial::options of these, in their order: a later one may stand for an earlier one.
  std::vector<std::string> changes;
  bool same_bits = true;  ///< none of them rounds otherwise
  std::string failure;    ///< why all that was kept did not run together; then nothing is kept
};

struct DoctorOptions {
  /// Changes that round otherwise may be tried, too: all passes of the plan.
  bool allow_rounding = false;
  double seconds = 0.25;  ///< that a short training is measured, once its queues are full
  int min_pairs = 3, max_pairs = 12;
  double least_share = 0.02;  ///< of the time; smaller causes are not named, nor treated
  double least_gain = 0.01;   ///< of the time; less is no difference
  /// Told before each short training: of what, and how much of its trial is done; it may end
  /// sooner.
  std::function<void(const std::string& what, double fraction)> progress;
  /// Told what was found, before a change is tried.
  std::function<void(const Diagnosis& diagnosis)> diagnosed;
  /// Told of each trial once it is over.
  std::function<void(const Trial& trial)> tried;
  /// Not 0: stop as soon as possible; what was found so far is returned, and no change is kept.
  const std::atomic<int>* stop = nullptr;
};

/// By short trainings from the beginning of the data: nothing is written, and the training that
/// follows is another one. No change touches a bit of the weights, but for what is allowed.
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
  struct Runs;
  Diagnosis diagnose(Runs& runs);
  Trial compare(const TrainOptions& before, const TrainOptions& after, Trial trial, Runs& runs);
  bool stopped() const { return how_.stop && how_.stop->load() != 0; }

  Recipe recipe_;
  TrainOptions options_;
  DoctorOptions how_;
};

}  // namespace brim::train
