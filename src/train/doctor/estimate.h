// Means with their intervals.
#pragma once

#include <vector>

#include <brim/train/doctor.h>

namespace brim::train {

/// Of at least one value; of one alone the interval is all numbers.
Estimate mean_of(const std::vector<double>& values);
/// Of positive ratios: the mean of their logarithms, as a ratio.
Estimate ratio_of(const std::vector<double>& ratios);

}  // namespace brim::train
