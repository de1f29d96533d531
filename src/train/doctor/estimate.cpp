#include "train/doctor/estimate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

namespace brim::train {
namespace {

/// The 97.5 % quantile of Student's t.
double t_quantile(size_t degrees) {
  static constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                      2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                      2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
  return degrees <= std::size(kTable) ? kTable[degrees - 1] : 2.086;  // wider than it is, by 6 %
}

}  // namespace

Estimate mean_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (values.size() < 2) return {mean, -kInfinity, kInfinity};
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double half = t_quantile(values.size() - 1) * std::sqrt(squares / (n - 1) / n);
  return {mean, mean - half, mean + half};
}

Estimate ratio_of(const std::vector<double>& ratios) {
  std::vector<double> logs;
  for (const double ratio : ratios) logs.push_back(std::log(ratio));
  const Estimate log = mean_of(logs);
  return {std::exp(log.value), std::exp(log.low), std::exp(log.high)};
}

Diagnosis diagnosis_of(const std::vector<double>& seconds_per_step,
                       const std::vector<std::vector<double>>& shares, double least_share) {
  Diagnosis d{.runs = static_cast<int>(seconds_per_step.size())};
  if (d.runs == 0) return d;
  d.seconds_per_step = mean_of(seconds_per_step);
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto cause = static_cast<diag::Cause>(i);
    const Estimate share = mean_of(shares[i]);
    if (cause == diag::Cause::compute)
      d.busy = share;
    else if (share.value >= least_share)
      d.causes.push_back({cause, share, share.value * d.seconds_per_step.value});
  }
  std::ranges::stable_sort(d.causes, std::greater(),
                           [](const CauseCost& cost) { return cost.share.value; });
  return d;
}

}  // namespace brim::train
