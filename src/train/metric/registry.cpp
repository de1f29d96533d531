#include "train/metric/registry.h"

#include <brim/ops/create.h>

#include "core/check.h"
#include "core/registry.h"

namespace brim::train {
namespace {

Registry<MetricKind>& metrics() {
  static auto* registry = new Registry<MetricKind>("recipe", "metric");
  return *registry;
}

}  // namespace

bool register_metric(const std::string& name, MetricKind kind) {
  return metrics().add(name, std::move(kind));
}

std::vector<std::string> metric_names() { return metrics().names(); }

MetricKind metric_kind(const std::string& name) { return metrics().get(name); }

std::vector<std::string> metrics_of(const Task& task, const Recipe& recipe) {
  return recipe.metrics.empty() ? task.metrics() : recipe.metrics;
}

void check_shapes(const Tensor& output, int output_rank, const Tensor& y, int y_rank,
                  bool whole_numbers) {
  BRIM_CHECK(output.rank() == output_rank && y.defined() && y.rank() == y_rank, ShapeError,
             "it is for outputs of {} axes and y of {}", output_rank, y_rank);
  BRIM_CHECK((y.dtype() == i64 || y.dtype() == i32) == whole_numbers, DTypeError,
             "it is for y of {}", whole_numbers ? "whole numbers" : "real numbers");
  bool fits = y.size(0) == output.size(0);
  for (int axis = 1; axis < y_rank && whole_numbers; ++axis) {
    const int from = y_rank == 3 ? axis + 1 : axis;  // of masks behind the classes
    fits = fits && y.size(axis) == output.size(from);
  }
  BRIM_CHECK(fits, ShapeError, "y has not as many samples");
}

Tensor zero_sums(const Shape& shape, Device device) {
  return zeros(shape, {.dtype = f64, .device = device});
}

std::vector<double> SummedMetric::state() const {
  std::vector<double> state;
  for (const Tensor& sum : sums_) {
    const std::vector<double> values = sum.to_vector<double>();
    state.insert(state.end(), values.begin(), values.end());
  }
  state.push_back(static_cast<double>(count_));
  return state;
}

void SummedMetric::merge(const std::vector<double>& state) {
  size_t at = 0;
  for (Tensor& sum : sums_) {
    const auto n = static_cast<size_t>(sum.numel());
    BRIM_CHECK(at + n < state.size(), ValueError,
               "[metric] a state of {} numbers is another metric's", state.size());
    const std::vector<double> values(state.begin() + static_cast<std::ptrdiff_t>(at),
                                     state.begin() + static_cast<std::ptrdiff_t>(at + n));
    sum.add_(Tensor::from<double>(values, sum.shape()).to(device_));
    at += n;
  }
  BRIM_CHECK(at + 1 == state.size(), ValueError,
             "[metric] a state of {} numbers is another metric's", state.size());
  count_ += static_cast<int64_t>(state[at]);
}

}  // namespace brim::train
