#include "train/metric/registry.h"

#include <brim/ops/create.h>

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

}  // namespace brim::train
