// Metrics of numbers: output (N, T), y (N, T), or (N) for one column.
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <cmath>

#include "core/check.h"
#include "train/metric/registry.h"

namespace brim::train {
namespace {

/// f64, in y's shape.
Tensor errors(const Tensor& output, const Tensor& y) {
  check_shapes(output, 2, y, y.rank() == 1 ? 1 : 2, false);
  return (output.reshape(y.shape()) - y).to(f64);
}

class MeanAbsoluteError final : public SummedMetric {
 public:
  explicit MeanAbsoluteError(const MetricOptions& o) : SummedMetric(o.device), sum_(add_sum({})) {}
  void add(const Tensor& output, const data::Batch& batch) override {
    sum_.add_(sum(abs(errors(output, batch.y))));
    count_ += batch.y.numel();
  }
  double value() const override { return sum_.item() / static_cast<double>(count_); }

 private:
  Tensor& sum_;
};

class RootMeanSquaredError final : public SummedMetric {
 public:
  explicit RootMeanSquaredError(const MetricOptions& o)
      : SummedMetric(o.device), sum_(add_sum({})) {}
  void add(const Tensor& output, const data::Batch& batch) override {
    sum_.add_(sum(square(errors(output, batch.y))));
    count_ += batch.y.numel();
  }
  double value() const override { return std::sqrt(sum_.item() / static_cast<double>(count_)); }

 private:
  Tensor& sum_;
};

/// 1 - squared errors / squared deviations from the mean, by column; the mean over the columns that
/// vary. Deviations are counted from the first batch's mean, so that large numbers keep their
/// digits.
class R2 final : public SummedMetric {
 public:
  explicit R2(const MetricOptions& o)
      : SummedMetric(o.device),
        columns_(o.outputs),
        errors_(add_sum({columns_})),
        sum_(add_sum({columns_})),
        squares_(add_sum({columns_})),
        shift_(zero_sums({columns_}, o.device)) {}
  /// What SummedMetric has, then the shift.
  std::vector<double> state() const override {
    std::vector<double> state = SummedMetric::state();
    const std::vector<double> shift = shift_.to_vector<double>();
    state.insert(state.end(), shift.begin(), shift.end());
    return state;
  }
  /// Counts the other one's deviations from this one's shift.
  void merge(const std::vector<double>& state) override {
    const auto columns = static_cast<size_t>(columns_);
    BRIM_CHECK(state.size() == 4 * columns + 1, ValueError,
               "[metric] a state of {} numbers is no r2's of {} columns", state.size(), columns_);
    const double count = state[3 * columns];
    if (count == 0) return;
    const auto shift = state.begin() + static_cast<std::ptrdiff_t>(3 * columns + 1);
    if (count_ == 0) {
      shift_ = Tensor::from<double>(std::vector<double>(shift, state.end()), {columns_})
                   .to(shift_.device());
      return SummedMetric::merge({state.begin(), shift});
    }
    const std::vector<double> own = shift_.to_vector<double>();
    std::vector<double> sums(state.begin(), shift);
    for (size_t i = 0; i < columns; ++i) {
      const double off = shift[static_cast<std::ptrdiff_t>(i)] - own[i];
      double& sum = sums[columns + i];
      sums[2 * columns + i] += 2 * off * sum + count * off * off;
      sum += count * off;
    }
    SummedMetric::merge(sums);
  }

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
  Tensor &errors_, &sum_, &squares_;  // (T)
  Tensor shift_;                      // (T)
};

const bool registered_number_metrics = register_metric("mae", number_of<MeanAbsoluteError>()) &&
                                       register_metric("rmse", number_of<RootMeanSquaredError>()) &&
                                       register_metric("r2", number_of<R2>(true));

}  // namespace
}  // namespace brim::train
