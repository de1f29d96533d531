// Metrics of pictures with masks: output (N, C, H, W) logits, y i64 (N, H, W), where
// data::kIgnoredClass counts for nothing.
#include <brim/data/pictures.h>
#include <brim/ops/compare.h>
#include <brim/ops/reduce.h>

#include "train/metric/confusion.h"

namespace brim::train {
namespace {

/// Of pixels.
class Pixels : public ConfusionMetric {
 public:
  explicit Pixels(const MetricOptions& o) : ConfusionMetric(o, /*ignores=*/true) {}

  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 4, batch.y, 3, true);
    count(batch.y, argmax(output, 1), eq(batch.y, static_cast<double>(data::kIgnoredClass)));
  }
};

/// hits / (there + said - hits) of each class, and the mean over those that occur.
class MeanIou final : public Pixels {
 public:
  using Pixels::Pixels;
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

class PixelAccuracy final : public Pixels {
 public:
  using Pixels::Pixels;
  double value() const override { return accuracy(); }
};

const bool registered_mask_metrics =
    register_metric("mean-iou", fraction_of<MeanIou>()) &&
    register_metric("pixel-accuracy", fraction_of<PixelAccuracy>());

}  // namespace
}  // namespace brim::train
