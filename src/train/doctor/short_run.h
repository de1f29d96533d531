// A short training that is measured once its queues are full.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include <brim/diag/account.h>
#include <brim/train/recipe.h>
#include <brim/train/trainer.h>

namespace brim::train {

struct ShortRun {
  int64_t steps = 0;  ///< that were measured
  double seconds_per_step = 0;
  diag::Account account;  ///< of these steps, on the first device
  int workers = 0;        ///< of the loader
  bool augments_on_host = false, has_pictures = false;
};

/// From the beginning of the data, for about `seconds`. Nothing is written. Nothing where `stop`
/// became other than 0. Throws what Trainer does.
std::optional<ShortRun> run_shortly(const Recipe& recipe, const TrainOptions& options,
                                    double seconds, const std::atomic<int>* stop);

}  // namespace brim::train
