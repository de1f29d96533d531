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

Tensor zero_sums(const Shape& shape, Device device) {
  return zeros(shape, {.dtype = f64, .device = device});
}

}  // namespace brim::train
