// Numbers that say how well a network does on a data set, by name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/tensor.h>
#include <brim/data/batch.h>

namespace brim::train {

/// How many samples (of pictures with masks: pixels) of a class there are, and for how many of them
/// the network said so.
struct ClassCount {
  int64_t samples = 0;  ///< of that class
  int64_t correct = 0;  ///< recognised
};

/// Sums over a data set, which stay on the device until they are asked for.
class Metric {
 public:
  virtual ~Metric() = default;
  /// Adds a batch, given what the network put out for its x. Called without gradients; reads
  /// nothing from the device.
  virtual void add(const Tensor& output, const data::Batch& batch) = 0;
  /// Over all batches so far, waiting for the device. NaN where it is not defined.
  virtual double value() const = 0;
  /// By class, for metrics that count; else empty.
  virtual std::vector<ClassCount> classes() const { return {}; }
  /// Of these, how many the network took for which: [class][what it said]. Empty: not counted.
  virtual std::vector<std::vector<int64_t>> confusion() const { return {}; }

  /// All that was added so far, waiting for the device, so that ranks may share a data set. Empty:
  /// there is no such thing, and each rank evaluates all of it.
  virtual std::vector<double> state() const { return {}; }
  /// Adds what another metric of the kind, with the same options, has as its state.
  virtual void merge(const std::vector<double>& /*state*/) {}
};

/// What a metric is made for.
struct MetricOptions {
  int64_t outputs = 0;  ///< of the network: classes, labels, targets, or tokens
  Device device = {};   ///< where its sums are
};

/// How a metric is made, and read.
struct MetricKind {
  /// Makes one, all of whose sums are 0.
  std::function<std::unique_ptr<Metric>(const MetricOptions& options)> make = {};
  bool higher_is_better = true;  ///< what the best epoch is chosen by
  bool is_fraction = false;      ///< in [0, 1]: shown as per cent
};

/// Makes `name` known to recipes (Recipe::metrics). Thread-safe. Throws ValueError when it is
/// taken. These are known:
///  - of classes: accuracy, top5, f1 (its mean over the classes that are there or predicted)
///  - of labels: f1 (likewise, a label being there from 0.5 on), average-precision (its mean over
///    the labels that occur, from 1,000 thresholds), label-accuracy (of all labels of all samples)
///  - of numbers: mae, rmse, r2 (each over all columns alike; r2 is their mean)
///  - of masks: mean-iou (over the classes that are there or predicted), pixel-accuracy
///  - of tokens: perplexity, bits-per-byte (for tokens that are bytes), token-accuracy
bool register_metric(const std::string& name, MetricKind kind);
std::vector<std::string> metric_names();  ///< all that are known, in alphabetical order

}  // namespace brim::train
