// What may make a training faster: what changes no bit of its weights, and what rounds otherwise.
#pragma once

#include <string>
#include <vector>

#include <brim/diag/account.h>
#include <brim/train/trainer.h>

#include "train/doctor/short_run.h"

namespace brim::train {

struct Change {
  std::string what;     ///< "4 loader workers"
  std::string options;  ///< of `brim train`: "--workers 4"
  TrainOptions after;
  std::vector<diag::Cause> causes;  ///< that it may lessen
  bool rounds = false;              ///< the weights get other bits
};

/// All that `options` leave to be changed; `run`: one with them. `allow_rounding`: as in
/// DoctorOptions.
std::vector<Change> possible_changes(const TrainOptions& options, const ShortRun& run,
                                     bool allow_rounding);

}  // namespace brim::train
