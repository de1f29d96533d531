// Whether a change lets a recipe learn as much as before.
#pragma once

#include <optional>

#include <brim/train/doctor.h>

namespace brim::train {

/// `seconds_per_sample`: of training without the change. Nothing where DoctorOptions::stop became
/// other than 0. Throws what Trainer does, and ValueError for data without a test split.
std::optional<LearningCheck> check_learning(const TrainSetting& before, const TrainSetting& after,
                                            double seconds_per_sample, const DoctorOptions& how);

/// Sets is_undecided and is_enough by the rest.
void judge(LearningCheck& check, bool higher_is_better);

}  // namespace brim::train
