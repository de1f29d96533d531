// Metrics of classes: output (N, C) logits, y (N) i64.
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>
#include <brim/ops/sort.h>

#include <algorithm>

#include "train/metric/confusion.h"

namespace brim::train {
namespace {

class Accuracy final : public ConfusionMetric {
 public:
  explicit Accuracy(const MetricOptions& o) : ConfusionMetric(o, /*ignores=*/false) {}

  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 2, batch.y, 1, true);
    count(batch.y, argmax(output, 1));
  }
  double value() const override { return accuracy(); }
};

/// The same of more classes than a matrix is kept of.
class AccuracyOfMany final : public SummedMetric {
 public:
  explicit AccuracyOfMany(const MetricOptions& o)
      : SummedMetric(o.device), correct_(add_sum({o.outputs})), total_(add_sum({o.outputs})) {}

  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 2, batch.y, 1, true);
    const Tensor is = one_hot(batch.y, correct_.numel(), f64);
    const Tensor hit = eq(argmax(output, 1, /*keepdim=*/true), batch.y.unsqueeze(1));
    correct_.add_(sum(is * hit.to(f64), {0}));
    total_.add_(sum(is, {0}));
  }
  double value() const override { return sum(correct_).item() / sum(total_).item(); }
  std::vector<ClassCount> classes() const override {
    const std::vector<int64_t> correct = correct_.to(i64).to_vector<int64_t>();
    const std::vector<int64_t> total = total_.to(i64).to_vector<int64_t>();
    std::vector<ClassCount> counts;
    for (size_t i = 0; i < total.size(); ++i) counts.push_back({total[i], correct[i]});
    return counts;
  }

 private:
  Tensor &correct_, &total_;  // (C), whole numbers
};

/// The right class is among the five of the largest logits.
class Top5 final : public SummedMetric {
 public:
  explicit Top5(const MetricOptions& o) : SummedMetric(o.device), correct_(add_sum({})) {}

  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 2, batch.y, 1, true);
    const int64_t k = std::min<int64_t>(5, output.size(1));
    const Tensor hit = eq(topk(output, k, 1).indices, batch.y.unsqueeze(1));
    correct_.add_(sum(hit.to(f64)));
    count_ += batch.y.numel();
  }
  double value() const override { return correct_.item() / static_cast<double>(count_); }

 private:
  Tensor& correct_;
};

MetricKind accuracy_kind() {
  return {[](const MetricOptions& o) -> std::unique_ptr<Metric> {
            if (o.outputs > ConfusionMetric::kMostClasses)
              return std::make_unique<AccuracyOfMany>(o);
            return std::make_unique<Accuracy>(o);
          },
          /*higher_is_better=*/true, /*is_fraction=*/true};
}

const bool registered_class_metrics =
    register_metric("accuracy", accuracy_kind()) && register_metric("top5", fraction_of<Top5>());

}  // namespace
}  // namespace brim::train
