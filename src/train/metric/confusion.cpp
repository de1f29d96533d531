#include "train/metric/confusion.h"

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>

#include <numeric>

namespace brim::train {

ConfusionMetric::ConfusionMetric(const MetricOptions& options, bool ignores)
    : SummedMetric(options.device),
      classes_(options.outputs),
      counts_(add_sum({classes_ * classes_ + (ignores ? 1 : 0)})) {}

void ConfusionMetric::count(const Tensor& is, const Tensor& said, const Tensor& ignored) {
  const auto c = static_cast<double>(classes_);
  Tensor at = is * c + said;
  if (ignored.defined()) at = masked_fill(at, ignored, c * c);
  counts_ = scatter_add(counts_, 0, at.flatten(),
                        ones({at.numel()}, {.dtype = f64, .device = at.device()}));
}

ConfusionMetric::Table ConfusionMetric::read() const {
  const std::vector<double> counts = counts_.to_vector<double>();
  const auto n = static_cast<size_t>(classes_);
  Table table{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
  for (size_t is = 0; is < n; ++is)
    for (size_t said = 0; said < n; ++said) {
      const double count = counts[is * n + said];
      table.there[is] += count;
      table.said[said] += count;
      if (is == said) table.hits[is] = count;
    }
  return table;
}

double ConfusionMetric::accuracy() const {
  const Table table = read();
  return std::accumulate(table.hits.begin(), table.hits.end(), 0.0) /
         std::accumulate(table.there.begin(), table.there.end(), 0.0);
}

std::vector<ClassCount> ConfusionMetric::classes() const {
  const Table table = read();
  std::vector<ClassCount> counts;
  for (size_t c = 0; c < table.hits.size(); ++c)
    counts.push_back({static_cast<int64_t>(table.there[c]), static_cast<int64_t>(table.hits[c])});
  return counts;
}

std::vector<std::vector<int64_t>> ConfusionMetric::confusion() const {
  if (classes_ > kMostClasses) return {};
  const std::vector<double> counts = counts_.to_vector<double>();
  const auto n = static_cast<size_t>(classes_);
  std::vector<std::vector<int64_t>> rows(n, std::vector<int64_t>(n));
  for (size_t is = 0; is < n; ++is)
    for (size_t said = 0; said < n; ++said)
      rows[is][said] = static_cast<int64_t>(counts[is * n + said]);
  return rows;
}

}  // namespace brim::train
