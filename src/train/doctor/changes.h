// What may make the training of a recipe faster.
#pragma once

#include <vector>

#include <brim/train/doctor.h>

#include "train/doctor/change.h"
#include "train/doctor/short_run.h"

namespace brim::train {

/// All that `setting` leaves to be changed and `how` allows; `run`: one with it.
std::vector<Change<TrainSetting>> possible_changes(const TrainSetting& setting, const ShortRun& run,
                                                   const DoctorOptions& how);

/// What changes of how steps are launched, and of where batches are made, may lessen.
const std::vector<diag::Cause>& launch_causes();
const std::vector<diag::Cause>& input_causes();

/// Numbers of loader workers that are worth a trial.
std::vector<int> more_workers(const ShortRun& run);
/// "4 loader workers"
std::string workers_text(int workers);

}  // namespace brim::train
