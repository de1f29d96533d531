// Metrics of labels, of which a sample may have several: output (N, T) logits, y f32 (N, T) of 0
// and 1. F1 serves classes, too.
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "train/metric/registry.h"

namespace brim::train {
namespace {

/// 2 tp / (2 tp + fp + fn) of each class, and the mean over those that are predicted or there.
class F1 final : public SummedMetric {
 public:
  explicit F1(const MetricOptions& o)
      : SummedMetric(o.device),
        hits_(add_sum({o.outputs})),
        said_(add_sum({o.outputs})),
        there_(add_sum({o.outputs})) {}

  void add(const Tensor& output, const data::Batch& batch) override {
    const bool classes = batch.y.rank() == 1;
    check_shapes(output, 2, batch.y, classes ? 1 : 2, classes);
    const Tensor there = classes ? one_hot(batch.y, output.size(1), f64) : batch.y.to(f64);
    const Tensor said =
        classes ? one_hot(argmax(output, 1), output.size(1), f64) : ge(output, 0).to(f64);
    hits_.add_(sum(there * said, {0}));
    said_.add_(sum(said, {0}));
    there_.add_(sum(there, {0}));
  }
  double value() const override {
    const std::vector<double> hits = hits_.to_vector<double>(), said = said_.to_vector<double>(),
                              there = there_.to_vector<double>();
    double all = 0;
    int64_t occur = 0;
    for (size_t i = 0; i < hits.size(); ++i) {
      if (said[i] + there[i] == 0) continue;
      all += 2 * hits[i] / (said[i] + there[i]);
      ++occur;
    }
    return all / static_cast<double>(occur);
  }

 private:
  Tensor &hits_, &said_, &there_;  // (C), whole numbers
};

class LabelAccuracy final : public SummedMetric {
 public:
  explicit LabelAccuracy(const MetricOptions& o) : SummedMetric(o.device), correct_(add_sum({})) {}

  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 2, batch.y, 2, false);
    correct_.add_(sum(eq(ge(output, 0).to(f64), batch.y.to(f64)).to(f64)));
    count_ += batch.y.numel();
  }
  double value() const override { return correct_.item() / static_cast<double>(count_); }

 private:
  Tensor& correct_;
};

/// The sum over thresholds, from the highest score down, of precision times what recall gains
/// there, by label. Scores are counted in bins of equal width, so memory does not grow with the
/// data.
class AveragePrecision final : public SummedMetric {
 public:
  explicit AveragePrecision(const MetricOptions& o)
      : SummedMetric(o.device),
        outputs_(o.outputs),
        there_(add_sum({o.outputs * kBins})),
        all_(add_sum({o.outputs * kBins})),
        first_(arange(o.outputs, {.dtype = i64, .device = o.device}) * double{kBins}) {}

  void add(const Tensor& output, const data::Batch& batch) override {
    check_shapes(output, 2, batch.y, 2, false);
    const Tensor p = sigmoid(output.to(f32));
    const Tensor score = masked_fill(p, isnan(p), 0);
    const Tensor bin = clamp(floor(score * double{kBins}), 0, kBins - 1).to(i64);
    const Tensor at = (bin + first_).flatten();
    const Tensor is = batch.y.to(f64).flatten();
    there_ = scatter_add(there_, 0, at, is);
    all_ = scatter_add(all_, 0, at, ones_like(is));
  }
  double value() const override {
    const std::vector<double> there = there_.to_vector<double>(), all = all_.to_vector<double>();
    double total = 0;
    int64_t occur = 0;
    for (int64_t label = 0; label < outputs_; ++label) {
      double hits = 0, said = 0, gained = 0;
      for (int64_t bin = kBins; bin-- > 0;) {
        const auto at = static_cast<size_t>(label * kBins + bin);
        hits += there[at];
        said += all[at];
        if (there[at] > 0) gained += there[at] * hits / said;
      }
      if (hits == 0) continue;
      total += gained / hits;
      ++occur;
    }
    return total / static_cast<double>(occur);
  }

 private:
  static constexpr int kBins = 1000;
  const int64_t outputs_;
  Tensor &there_, &all_;  // (T * kBins): by label, then by score; whole numbers
  Tensor first_;          // (T): where a label's bins begin
};

const bool registered_label_metrics =
    register_metric("f1", fraction_of<F1>()) &&
    register_metric("label-accuracy", fraction_of<LabelAccuracy>()) &&
    register_metric("average-precision", fraction_of<AveragePrecision>());

}  // namespace
}  // namespace brim::train
