// Metrics of pictures with masks: output (N, C, H, W) logits, y i64 (N, H, W), where
// data::kIgnoredClass counts for nothing.
#include <brim/data/pictures.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>

#include "train/metric/registry.h"

namespace brim::train {
namespace {

/// How many pixels of each class the network took for which.
class Confusion : public SummedMetric {
 public:
  explicit Confusion(const MetricOptions& o)
      : SummedMetric(o.device), classes_(o.outputs), counts_(add_sum({classes_ * classes_ + 1})) {}

  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 4, batch.y, 3, true);
    const auto c = static_cast<double>(classes_);
    const Tensor ignored = eq(batch.y, static_cast<double>(data::kIgnoredClass));
    const Tensor at = masked_fill(batch.y * c + argmax(output, 1), ignored, c * c);
    counts_ = scatter_add(counts_, 0, at.flatten(),
                          ones({at.numel()}, {.dtype = f64, .device = at.device()}));
  }
  std::vector<ClassCount> classes() const override {
    const Table table = read();
    std::vector<ClassCount> counts;
    for (size_t c = 0; c < table.hits.size(); ++c)
      counts.push_back({static_cast<int64_t>(table.there[c]), static_cast<int64_t>(table.hits[c])});
    return counts;
  }

 protected:
  struct Table {
    std::vector<double> hits, there, said;  // pixels by class
  };
  Table read() const {
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

 private:
  const int64_t classes_;
  Tensor& counts_;  // (C * C + 1): by class and what was said, and those ignored; whole numbers
};

/// hits / (there + said - hits) of each class, and the mean over those that occur.
class MeanIou final : public Confusion {
 public:
  using Confusion::Confusion;
  double value() const override {
    const Table table = read();
    double all = 0;
    int64_t occur = 0;
    for (size_t c = 0; c < table.hits.size(); ++c) {
      const double whole = table.there[c] + table.said[c] - table.hits[c];
      if (whole == 0) continue;
      all += table.hits[c] / whole;
      ++occur;
    }
    return all / static_cast<double>(occur);
  }
};

class PixelAccuracy final : public Confusion {
 public:
  using Confusion::Confusion;
  double value() const override {
    const Table table = read();
    double hits = 0, there = 0;
    for (const double count : table.hits) hits += count;
    for (const double count : table.there) there += count;
    return hits / there;
  }
};

const bool registered_mask_metrics =
    register_metric("mean-iou", fraction_of<MeanIou>()) &&
    register_metric("pixel-accuracy", fraction_of<PixelAccuracy>());

}  // namespace
}  // namespace brim::train
