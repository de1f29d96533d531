#include "compress/prune_units.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace brim::compress {
namespace {

/// The units of a layer from the least one on, with the scores that layers are compared by.
class Ascending {
 public:
  explicit Ascending(const PruneUnits& units) : units_(units), order_(units.means.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::sort(order_, [&](size_t a, size_t b) {
      return units.means[a] < units.means[b] || (units.means[a] == units.means[b] && a < b);
    });
    double sum = 0;
    squares_left_.resize(order_.size());
    for (size_t i = order_.size(); i-- > 0;) squares_left_[i] = sum += square_of(order_[i]);
  }

  /// The last unit stays.
  bool has_next() const { return at_ + 1 < order_.size(); }
  size_t next() const { return order_[at_]; }
  int64_t size() const { return units_.size_of(next()); }
  bool is_zero() const { return units_.means[next()] == 0; }
  double score() const {
    const double mean = units_.means[next()];
    return mean == 0 ? 0 : mean * mean / squares_left_[at_];
  }
  void take() { ++at_; }

 private:
  double square_of(size_t unit) const {
    const double mean = units_.means[unit];
    return mean * mean * static_cast<double>(units_.size_of(unit));
  }

  const PruneUnits& units_;
  std::vector<size_t> order_;
  std::vector<double> squares_left_;  // from each on
  size_t at_ = 0;
};

}  // namespace

int64_t PruneUnits::size_of(size_t unit) const {
  return std::min(length, outputs - static_cast<int64_t>(unit) / columns * length);
}

PruneUnits element_units(std::span<const float> scores) {
  return {.means = std::vector<double>(scores.begin(), scores.end()),
          .outputs = std::ssize(scores)};
}

PruneUnits vector_units(std::span<const float> scores, const std::vector<int64_t>& order,
                        int64_t length) {
  const int64_t outputs = std::ssize(order), groups = (outputs + length - 1) / length;
  PruneUnits units{.means = {},
                   .columns = outputs > 0 ? std::ssize(scores) / outputs : 0,
                   .outputs = outputs,
                   .length = length};
  const int64_t columns = units.columns;
  units.means.assign(static_cast<size_t>(groups * columns), 0.0);
  for (int64_t position = 0; position < outputs; ++position) {
    const float* const from = scores.data() + order[static_cast<size_t>(position)] * columns;
    double* const to = units.means.data() + position / length * columns;
    // The last group may be smaller: means are compared, and elements counted.
    const auto size = static_cast<double>(std::min(length, outputs - position / length * length));
    for (int64_t k = 0; k < columns; ++k) to[k] += from[k] / size;
  }
  return units;
}

std::vector<std::vector<uint8_t>> least_units(std::span<const PruneUnits> layers, double sparsity) {
  std::vector<std::vector<uint8_t>> left_out;
  std::vector<Ascending> ascending;
  double elements = 0, half = 0;
  for (const PruneUnits& units : layers) {
    left_out.emplace_back(units.means.size(), uint8_t{0});
    ascending.emplace_back(units);
    elements += static_cast<double>(units.outputs * units.columns);
    half = std::max(half, 0.5 * static_cast<double>(units.length));
  }
  const double goal = std::round(sparsity * elements);
  using Scored = std::pair<double, size_t>;  // a layer's next unit
  std::priority_queue<Scored, std::vector<Scored>, std::greater<>> least;
  const auto add = [&](size_t layer) {
    if (ascending[layer].has_next()) least.emplace(ascending[layer].score(), layer);
  };
  for (size_t i = 0; i < layers.size(); ++i) add(i);
  for (double count = 0; !least.empty();) {
    const size_t i = least.top().second;
    least.pop();
    Ascending& layer = ascending[i];
    const auto size = static_cast<double>(layer.size());
    // Zeros come first, and in another order than that in which they were made: all that one call
    // leaves out at most are zeros to the next one.
    if (layer.is_zero() ? count + size > goal + half : count + half > goal) break;
    count += size;
    left_out[i][layer.next()] = 1;
    layer.take();
    add(i);
  }
  return left_out;
}

}  // namespace brim::compress
