#include "train/doctor/estimate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace brim::train {
namespace {

/// Quantiles of Student's t by degrees of freedom; beyond the table the last one, which is wider
/// than it has to be by a few per cent.
struct Quantiles {
  double table[20];
  double of(size_t degrees) const { return table[std::min<size_t>(degrees, 20) - 1]; }
};
constexpr Quantiles k975 = {{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                             2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                             2.131,  2.120, 2.110, 2.101, 2.093, 2.086}};
constexpr Quantiles k995 = {{63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499,
                             3.355,  3.250, 3.169, 3.106, 3.055, 3.012, 2.977,
                             2.947,  2.921, 2.898, 2.878, 2.861, 2.845}};

Estimate with_interval(double value, double error, size_t count, const Quantiles& quantiles) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (count < 2) return {value, -kInfinity, kInfinity};
  const double half = quantiles.of(count - 1) * error;
  return {value, value - half, value + half};
}

Estimate mean_with(const std::vector<double>& values, const Quantiles& quantiles) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / n) * (value - sum / n);
  const double error = values.size() < 2 ? 0 : std::sqrt(squares / (n - 1) / n);
  return with_interval(sum / n, error, values.size(), quantiles);
}

Estimate ratio_with(const std::vector<double>& ratios, const Quantiles& quantiles) {
  std::vector<double> logs;
  for (const double ratio : ratios) logs.push_back(std::log(ratio));
  const Estimate log = mean_with(logs, quantiles);
  return {std::exp(log.value), std::exp(log.low), std::exp(log.high)};
}

}  // namespace

Estimate ratio_of(const std::vector<double>& ratios) { return ratio_with(ratios, k975); }

Estimate ratio_of_sums(const std::vector<double>& parts, const std::vector<double>& wholes) {
  const size_t n = parts.size();
  double part = 0, whole = 0, squares = 0, mean = 0;
  for (size_t i = 0; i < n; ++i) part += parts[i], whole += wholes[i];
  std::vector<double> without;
  for (size_t i = 0; i < n && n > 1; ++i) {
    without.push_back((part - parts[i]) / (whole - wholes[i]));
    mean += without[i] / static_cast<double>(n);
  }
  for (const double value : without) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares * static_cast<double>(n - 1) / static_cast<double>(n));
  return with_interval(part / whole, error, n, k975);
}

Verdict verdict_of(const std::vector<double>& speedups, const DoctorOptions& how) {
  if (static_cast<int>(speedups.size()) < how.min_pairs) return Verdict::undecided;
  const Estimate of = ratio_with(speedups, k995);
  if (of.low > 1 - how.least_gain && of.high < 1 + how.least_gain) return Verdict::no_difference;
  if (of.low > 1) return Verdict::faster;
  return of.high < 1 ? Verdict::slower : Verdict::undecided;
}

Diagnosis diagnosis_of(const std::vector<Measured>& stretches, double least_share) {
  Diagnosis d{.runs = static_cast<int>(stretches.size())};
  if (d.runs == 0) return d;
  std::vector<double> walls, steps, parts(stretches.size());
  for (const Measured& m : stretches) {
    walls.push_back(m.account.wall);
    steps.push_back(m.steps);
  }
  d.seconds_per_step = ratio_of_sums(walls, steps);
  for (int i = 0; i < diag::kCauseCount; ++i) {
    const auto cause = static_cast<diag::Cause>(i);
    for (size_t k = 0; k < stretches.size(); ++k)
      parts[k] = stretches[k].account.seconds[static_cast<size_t>(i)];
    const Estimate share = ratio_of_sums(parts, walls);
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
