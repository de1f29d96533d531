// The doctor at work on what was asked for, telling the user as it goes.
#pragma once

#include <atomic>

#include <brim/train/doctor.h>

#include "command/train_request.h"

namespace brim::command {

struct Treatment {
  bool fix = false;
  bool allow_rounding = false, allow_precision = false, allow_batch = false;  ///< with `fix`
  double seconds = 0.25;  ///< as in DoctorOptions
  bool quiet = false;     ///< standard output carries JSON
};

/// Throws UsageError for one of several processes, and what train::Doctor does.
train::Cure treat(const TrainRequest& request, const Treatment& how, const std::atomic<int>& stop);

}  // namespace brim::command
