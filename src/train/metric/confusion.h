// Metrics that are read off counts of which class the network took for which.
#pragma once

#include <cstdint>
#include <vector>

#include "train/metric/registry.h"

namespace brim::train {

class ConfusionMetric : public SummedMetric {
 public:
  /// A matrix of more classes than that is too large to be kept, and to be looked at.
  static constexpr int64_t kMostClasses = 200;

  std::vector<ClassCount> classes() const override;
  std::vector<std::vector<int64_t>> confusion() const override;

 protected:
  /// Samples by class: those that it is, that the network said, and both.
  struct Table {
    std::vector<double> hits, there, said;
  };

  /// `ignores`: some of what is counted is of no class.
  ConfusionMetric(const MetricOptions& options, bool ignores);
  /// Whole numbers of any shape: what it is, and what the network said. Where `ignored`, nothing
  /// counts.
  void count(const Tensor& is, const Tensor& said, const Tensor& ignored = {});
  Table read() const;
  /// The share of what was counted that the network recognised.
  double accuracy() const;

 private:
  const int64_t classes_;
  Tensor& counts_;  // (C * C), or with one more for what is ignored; whole numbers
};

}  // namespace brim::train
