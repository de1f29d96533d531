// ValueHistogram: what range of values 256 steps are for.
#include <brim/compress/quantize.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"

namespace brim::compress {
namespace {

constexpr size_t kBins = 2048;
constexpr int kSteps = 256;

}  // namespace

Calibration parse_calibration(std::string_view text) {
  if (text == "min-max") return Calibration::min_max;
  if (text == "percentile") return Calibration::percentile;
  if (text == "entropy") return Calibration::entropy;
  if (text == "mse") return Calibration::mse;
  raise<ValueError>("[quantize] calibration '{}': give min-max, percentile, entropy or mse", text);
}

double ValueHistogram::middle(size_t bin) const {
  return (static_cast<double>(first_) + static_cast<double>(bin) + 0.5) * width_;
}

/// Bins are doubled in width, two becoming one, until kBins of them hold the range.
void ValueHistogram::widen(double min, double max) {
  // Of a narrow range a far value's bin may be too large for an integer.
  const auto bin_of = [&](double v) { return std::floor(v / width_); };
  if (width_ == 0) {
    const double magnitude = std::max({std::fabs(min), std::fabs(max), 1e-30});
    width_ = std::exp2(std::ceil(std::log2(2 * magnitude / static_cast<double>(kBins))));
    first_ = static_cast<int64_t>(bin_of(min));
    bins_.assign(kBins + 1, 0);
  }
  const auto holds = [&] {
    return bin_of(min) >= static_cast<double>(first_) &&
           bin_of(max) < static_cast<double>(first_ + std::ssize(bins_));
  };
  while (!holds()) {
    // The bins move down to make room, where they need not be halved.
    const double low = std::min(static_cast<double>(first_), bin_of(min));
    int64_t used = std::ssize(bins_);
    while (used > 0 && bins_[static_cast<size_t>(used - 1)] == 0) --used;
    const double high = std::max(static_cast<double>(first_ + used - 1), bin_of(max));
    std::vector<double> wider(bins_.size(), 0);
    if (high - low < static_cast<double>(bins_.size())) {
      const auto first = static_cast<int64_t>(low);
      for (int64_t i = 0; i < used; ++i)
        wider[static_cast<size_t>(i + first_ - first)] = bins_[static_cast<size_t>(i)];
      first_ = first;
    } else {
      const auto half = [](int64_t bin) { return bin >> 1; };  // rounds down
      const int64_t first = half(first_);
      for (int64_t i = 0; i < used; ++i)
        wider[static_cast<size_t>(half(first_ + i) - first)] += bins_[static_cast<size_t>(i)];
      first_ = first;
      width_ *= 2;
    }
    bins_ = std::move(wider);
  }
}

void ValueHistogram::add(const Tensor& x) {
  const std::vector<float> values = x.detach().to(DType::f32).to_vector<float>();
  if (values.empty()) return;
  double min = values[0], max = values[0];
  for (const float v : values) {
    BRIM_CHECK(std::isfinite(v), ValueError, "[quantize] a value of the calibration is {}", v);
    min = std::min<double>(min, v);
    max = std::max<double>(max, v);
  }
  min_ = count_ > 0 ? std::min(min_, min) : min;
  max_ = count_ > 0 ? std::max(max_, max) : max;
  count_ += static_cast<int64_t>(values.size());
  if (min_ == 0 && max_ == 0) return;  // zeros are counted once there are bins
  const bool is_first = width_ == 0;
  widen(std::min(min, 0.0), std::max(max, 0.0));
  if (is_first)
    bins_[static_cast<size_t>(-first_)] +=
        static_cast<double>(count_ - static_cast<int64_t>(values.size()));
  const double inverse = 1 / width_;  // a power of two
  for (const float v : values)
    bins_[static_cast<size_t>(static_cast<int64_t>(std::floor(v * inverse)) - first_)] += 1;
}

ValueHistogram::Range ValueHistogram::of_percentile(double percentile) const {
  const double outside = static_cast<double>(count_) * (100 - percentile) / 100;
  size_t low = 0, high = bins_.size() - 1;
  for (double sum = bins_[low]; sum <= outside && low < high; sum += bins_[low]) ++low;
  for (double sum = bins_[high]; sum <= outside && high > low; sum += bins_[high]) --high;
  return {std::max(min_, middle(low) - width_ / 2), std::min(max_, middle(high) + width_ / 2)};
}

/// Of the mean of a bin's values: those in a step are spread evenly over it.
double ValueHistogram::square_error(QuantParams p) const {
  double sum = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    if (bins_[i] == 0) continue;
    const double v = middle(i);
    const double q =
        std::clamp(std::nearbyint(v / p.scale) + p.zero_point, 0.0, double{kSteps - 1});
    const double error = (q - p.zero_point) * p.scale - v;
    sum += bins_[i] * error * error;
  }
  return sum;
}

/// Kullback-Leibler, of the values (those outside clipped to the ends) from what steps tell of
/// them.
double ValueHistogram::divergence(QuantParams p) const {
  std::vector<double> clipped(bins_.size(), 0), of_step(kSteps, 0), bins_of_step(kSteps, 0);
  std::vector<size_t> step(bins_.size());
  const double low = p.min(), high = p.max();
  const auto bin_at = [&](double v) {
    const auto bin = static_cast<int64_t>(std::floor(v / width_)) - first_;
    return static_cast<size_t>(std::clamp<int64_t>(bin, 0, static_cast<int64_t>(bins_.size()) - 1));
  };
  for (size_t i = 0; i < bins_.size(); ++i) {
    const double v = middle(i);
    clipped[v < low ? bin_at(low) : v > high ? bin_at(high) : i] += bins_[i];
    step[i] = static_cast<size_t>(
        std::clamp(std::nearbyint(v / p.scale) + p.zero_point, 0.0, double{kSteps - 1}));
    const bool is_inside = v >= low && v <= high;
    if (!is_inside || bins_[i] == 0) continue;  // steps know of no others
    of_step[step[i]] += bins_[i];
    bins_of_step[step[i]] += 1;
  }
  const double inside = std::accumulate(of_step.begin(), of_step.end(), 0.0);
  const double all = static_cast<double>(count_);
  double sum = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    if (clipped[i] == 0) continue;
    const bool is_covered = bins_[i] > 0 && bins_of_step[step[i]] > 0 && inside > 0;
    const double quantised = is_covered ? of_step[step[i]] / bins_of_step[step[i]] / inside : 0;
    sum += clipped[i] / all * std::log(clipped[i] / all / std::max(quantised, 1e-9));
  }
  return sum;
}

ValueHistogram::Range ValueHistogram::of_least(double (ValueHistogram::*cost)(QuantParams)
                                                   const) const {
  Range best{min_, max_};
  double least = (this->*cost)(QuantParams::of_range(min_, max_));
  constexpr int kTries = 128;
  for (int i = kTries - 1; i > kTries / 16; --i) {
    const double part = static_cast<double>(i) / kTries;
    const Range range{min_ * part, max_ * part};
    const double now = (this->*cost)(QuantParams::of_range(range.low, range.high));
    if (now < least) {
      least = now;
      best = range;
    }
  }
  return best;
}

QuantParams ValueHistogram::params(Calibration calibration, double percentile) const {
  BRIM_CHECK(count_ > 0, ValueError, "[quantize] a range of no values");
  BRIM_CHECK(percentile > 50 && percentile <= 100, ValueError,
             "[quantize] a percentile of {}; it is above 50, and at most 100", percentile);
  if (bins_.empty()) return {};  // zeros alone
  Range range{min_, max_};
  if (calibration == Calibration::percentile) range = of_percentile(percentile);
  if (calibration == Calibration::mse) range = of_least(&ValueHistogram::square_error);
  if (calibration == Calibration::entropy) range = of_least(&ValueHistogram::divergence);
  return QuantParams::of_range(range.low, range.high);
}

}  // namespace brim::compress
