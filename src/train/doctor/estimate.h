// Means with their intervals, and what a diagnosis makes of them.
#pragma once

#include <vector>

#include <brim/train/doctor.h>

namespace brim::train {

/// Of at least one value; of one alone the interval is all numbers.
Estimate mean_of(const std::vector<double>& values);
/// Of positive ratios: the mean of their logarithms, as a ratio.
Estimate ratio_of(const std::vector<double>& ratios);

/// `shares`: by cause, of as many stretches of training as `seconds_per_step`. Causes below
/// `least_share` are left out.
Diagnosis diagnosis_of(const std::vector<double>& seconds_per_step,
                       const std::vector<std::vector<double>>& shares, double least_share);

}  // namespace brim::train
