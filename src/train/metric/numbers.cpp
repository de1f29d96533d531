// Metrics of numbers: output (N, T), y (N, T), or (N) for one column.
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <cmath>

#include "train/metric/registry.h"

namespace brim::train {
namespace {

/// f64, in y's shape.
Tensor errors(const Tensor& output, const Tensor& y) {
  check_shapes(output, 2, y, y.rank() == 1 ? 1 : 2, false);
  return (output.reshape(y.shape()) - y).to(f64);
}

class MeanAbsoluteError final : public Metric {
 public:
  explicit MeanAbsoluteError(const MetricOptions& o) : sum_(zero_sums({}, o.device)) {}
  void add(const Tensor& output, const data::Batch& batch) override {
    sum_.add_(sum(abs(errors(output, batch.y))));
    count_ += batch.y.numel();
  }
  double value() const override { return sum_.item() / static_cast<double>(count_); }

 private:
  Tensor sum_;
  int64_t count_ = 0;
};

class RootMeanSquaredError final : public Metric {
 public:
  explicit RootMeanSquaredError(const MetricOptions& o) : sum_(zero_sums({}, o.device)) {}
  void add(const Tensor& output, const data::Batch& batch) override {
    sum_.add_(sum(square(errors(output, batch.y))));
    count_ += batch.y.numel();
  }
  double value() const override { return std::sqrt(sum_.item() / static_cast<double>(count_)); }

 private:
  Tensor sum_;
  int64_t count_ = 0;
};

/// 1 - squared errors / squared deviations from the mean, by column; the mean over the columns that
/// vary. Deviations are counted from the first batch's mean, so that large numbers keep their
/// digits.
class R2 final : public Metric {
 public:
  explicit R2(const MetricOptions& o)
      : columns_(o.outputs),
        errors_(zero_sums({columns_}, o.device)),
        sum_(zero_sums({columns_}, o.device)),
        squares_(zero_sums({columns_}, o.device)) {}
  void add(const Tensor& output, const data::Batch& batch) override {
    errors_.add_(sum(square(errors(output, batch.y).reshape({-1, columns_})), {0}));
    const Tensor y = batch.y.reshape({-1, columns_}).to(f64);
    if (count_ == 0) shift_ = mean(y, {0});
    const Tensor off = y - shift_;
    sum_.add_(sum(off, {0}));
    squares_.add_(sum(square(off), {0}));
    count_ += y.size(0);
  }
  double value() const override {
    const std::vector<double> errors = errors_.to_vector<double>(), sums = sum_.to_vector<double>(),
                              squares = squares_.to_vector<double>();
    double all = 0;
    int64_t vary = 0;
    for (size_t i = 0; i < errors.size(); ++i) {
      const double spread = squares[i] - sums[i] * sums[i] / static_cast<double>(count_);
      if (!(spread > 0)) continue;
      all += 1 - errors[i] / spread;
      ++vary;
    }
    return all / static_cast<double>(vary);
  }

 private:
  const int64_t columns_;
  Tensor errors_, sum_, squares_;  // (T)
  Tensor shift_;                   // (T)
  int64_t count_ = 0;
};

const bool registered_number_metrics = register_metric("mae", number_of<MeanAbsoluteError>()) &&
                                       register_metric("rmse", number_of<RootMeanSquaredError>()) &&
                                       register_metric("r2", number_of<R2>(true));

}  // namespace
}  // namespace brim::train
