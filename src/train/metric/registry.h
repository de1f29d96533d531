// The table of metrics by name.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/train/metric.h>
#include <brim/train/task.h>

namespace brim::train {

/// Throws ValueError naming the nearest valid name.
MetricKind metric_kind(const std::string& name);

/// Names of a recipe's metrics: its own, or the task's.
std::vector<std::string> metrics_of(const Task& task, const Recipe& recipe);

/// For register_metric(): a fraction, of which more is better.
template <class M>
MetricKind fraction_of() {
  return {[](const MetricOptions& options) { return std::make_unique<M>(options); }, true, true};
}
/// Any other number.
template <class M>
MetricKind number_of(bool higher_is_better = false) {
  return {[](const MetricOptions& options) { return std::make_unique<M>(options); },
          higher_is_better, false};
}

/// Throws ShapeError, DTypeError unless output has this rank and y that one, with as many samples
/// (of masks: pixels, of tokens: tokens) as output, and whole numbers or not.
void check_shapes(const Tensor& output, int output_rank, const Tensor& y, int y_rank,
                  bool whole_numbers);

/// f64 zeros on the device, where counts and sums are kept.
Tensor zero_sums(const Shape& shape, Device device);

/// A metric whose state is sums.
class SummedMetric : public Metric {
 public:
  /// The elements of all sums, then the count.
  std::vector<double> state() const override;
  void merge(const std::vector<double>& state) override;

 protected:
  explicit SummedMetric(Device device) : device_(device) {}
  /// One more sum, f64 zeros; for a member that is a reference.
  Tensor& add_sum(const Shape& shape) { return sums_.emplace_back(zero_sums(shape, device_)); }

  int64_t count_ = 0;  ///< of what was added, where that is divided by

 private:
  const Device device_;
  std::deque<Tensor> sums_;
};

}  // namespace brim::train
