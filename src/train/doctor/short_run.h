// A short training that is measured once its queues are full.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include <brim/diag/account.h>
#include <brim/train/doctor.h>
#include <brim/train/recipe.h>
#include <brim/train/trainer.h>

namespace brim::train {

struct ShortRun {
  int64_t steps = 0;  ///< that were measured
  double seconds_per_step = 0;
  diag::Account account;  ///< of these steps but for the first ones, on the first device
  int workers = 0;        ///< of the loader
  int64_t batch = 1;      ///< samples of a step
  int64_t samples = 0;    ///< of an epoch; 0: nobody knows
  Evidence evidence;
  bool augments_on_host = false, has_pictures = false;
  bool runs_plans = false;  ///< its steps, or parts of them, are compiled

  double seconds_per_sample() const { return seconds_per_step / static_cast<double>(batch); }
};

/// What evaluations take that come once in so many steps, and of which it measured none or few by
/// chance: `seconds` each.
void charge_evaluations(ShortRun& run, double seconds, int64_t steps_per_epoch);

/// The same, with nothing written, told or resumed.
TrainOptions silent(TrainOptions options);

/// From the beginning of the data, for about `seconds`; where that is shorter than some epochs, an
/// evaluation is measured besides, for as long at most. Nothing is written. Nothing where `stop`
/// became other than 0. Throws what Trainer does.
std::optional<ShortRun> run_shortly(const Recipe& recipe, const TrainOptions& options,
                                    double seconds, const std::atomic<int>* stop);

}  // namespace brim::train
