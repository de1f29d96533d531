// Ratios with their intervals, and what a diagnosis makes of them.
#pragma once

#include <vector>

#include <brim/train/doctor.h>

namespace brim::train {

/// Of at least one positive ratio: the mean of their logarithms, as a ratio. Of one alone the
/// interval is all of them.
Estimate ratio_of(const std::vector<double>& ratios);
/// The sum of `parts` over that of `wholes`, by the jackknife (Efron and Stein, 1981).
Estimate ratio_of_sums(const std::vector<double>& parts, const std::vector<double>& wholes);

/// What the pairs so far say of a change. Asked after each of them, so it takes 99 % intervals: of
/// changes that do nothing, some two in a hundred are then taken for faster, and as many for
/// slower.
Verdict verdict_of(const std::vector<double>& speedups, const DoctorOptions& how);

/// A stretch of training.
struct Measured {
  double steps = 0;
  diag::Account account;
};
/// Causes below `least_share` are left out.
Diagnosis diagnosis_of(const std::vector<Measured>& stretches, double least_share);

}  // namespace brim::train
