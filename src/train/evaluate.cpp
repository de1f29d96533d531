// How well a network does on a data set.
#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/shape.h>
#include <brim/train/trainer.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "core/check.h"
#include "core/device_names.h"
#include "core/nearest.h"
#include "diag/span.h"
#include "train/evaluate.h"
#include "train/metric/registry.h"
#include "train/most_wrong.h"

namespace brim::train {
namespace {

/// The metrics of an evaluation, and its loss.
class Meters {
 public:
  Meters(const Recipe& recipe, const TaskData& data, Device device)
      : task_(make_task(recipe)),
        data_(data),
        options_{.outputs = data.outputs, .device = device},
        loss_(zero_sums({}, device)) {
    for (const std::string& name : metrics_of(*task_, recipe)) {
      const MetricKind kind = metric_kind(name);
      meters_.push_back({name, kind, kind.make(options_)});
    }
  }

  /// Adds up what all ranks have. Returns whether one of them was stopped, this one if `stopped`.
  bool share(dist::ProcessGroup& group, bool stopped) {
    std::vector<double> own = {stopped ? 1.0 : 0.0, static_cast<double>(samples_),
                               static_cast<double>(skipped_), loss_.item()};
    for (const Meter& meter : meters_) {
      const std::vector<double> state = meter.metric->state();
      own.push_back(static_cast<double>(state.size()));
      own.insert(own.end(), state.begin(), state.end());
    }
    std::string text(own.size() * sizeof(double), '\0');
    std::memcpy(text.data(), own.data(), text.size());
    double loss = 0;
    samples_ = skipped_ = 0;
    for (Meter& meter : meters_) meter.metric = meter.kind.make(options_);
    for (const std::string& rank : group.all_gather_text(text)) {
      std::vector<double> all(rank.size() / sizeof(double));
      std::memcpy(all.data(), rank.data(), rank.size());
      stopped = stopped || all[0] != 0;
      samples_ += static_cast<int64_t>(all[1]);
      skipped_ += static_cast<int64_t>(all[2]);
      loss += all[3];
      auto at = all.begin() + 4;
      for (const Meter& meter : meters_) {
        const auto size = static_cast<std::ptrdiff_t>(*at++);
        meter.metric->merge({at, at + size});
        at += size;
      }
    }
    loss_.fill_(loss);
    return stopped;
  }

  void add(const Tensor& output, const data::Batch& batch) {
    const auto samples = static_cast<int64_t>(batch.samples.size());
    loss_.add_(task_->loss(output, batch, false).to(f64) * static_cast<double>(samples));
    for (const Meter& meter : meters_) add_to(meter, output, batch);
    samples_ += samples;
  }

  /// Corrupt samples that add() never had.
  void skip(int64_t samples) { skipped_ += samples; }

  Evaluation read() const {
    Evaluation result{.samples = samples_, .skipped = skipped_};
    if (samples_ == 0) return result;
    result.loss = loss_.item() / static_cast<double>(samples_);
    for (const Meter& meter : meters_) {
      result.metrics.push_back(
          {meter.name, meter.metric->value(), meter.kind.higher_is_better, meter.kind.is_fraction});
      if (result.classes.empty()) count_classes(*meter.metric, result);
    }
    return result;
  }

 private:
  struct Meter {
    std::string name;
    MetricKind kind;
    std::unique_ptr<Metric> metric;
  };

  /// A metric of another task fails on shapes that it was not made for.
  static void add_to(const Meter& meter, const Tensor& output, const data::Batch& batch) {
    const auto explain = [&](const Error& e) {
      return fmt::format("[eval] metric '{}' does not fit an output {} and y {}: {}", meter.name,
                         output.shape().str(), batch.y.defined() ? batch.y.shape().str() : "none",
                         e.what());
    };
    try {
      meter.metric->add(output, batch);
    } catch (const ShapeError& e) {
      throw ValueError(explain(e));
    } catch (const DTypeError& e) {
      throw ValueError(explain(e));
    } catch (const IndexError& e) {
      throw ValueError(explain(e));
    }
  }

  void count_classes(const Metric& metric, Evaluation& result) const {
    const std::vector<ClassCount> counts = metric.classes();
    if (!counts.empty()) result.confusion = metric.confusion();
    for (size_t i = 0; i < counts.size(); ++i) {
      const std::string name = i < data_.names.size() ? data_.names[i] : std::to_string(i);
      result.classes.push_back(
          {.name = name, .samples = counts[i].samples, .correct = counts[i].correct});
    }
  }

  const std::unique_ptr<Task> task_;
  const TaskData& data_;
  const MetricOptions options_;
  std::vector<Meter> meters_;
  Tensor loss_;  // scalar: the batches' means times their samples
  int64_t samples_ = 0, skipped_ = 0;
};

/// Every so many batches, from the rank's on.
class BatchesOfRank final : public data::Sampler {
 public:
  BatchesOfRank(int64_t samples, int64_t batch, int64_t rank, int64_t world_size)
      : batch_(batch), rank_(rank), world_size_(world_size) {
    for (int64_t first = rank * batch; first < samples; first += world_size * batch)
      size_ += std::min(batch, samples - first);
  }
  int64_t size() const override { return size_; }
  int64_t sample(int64_t /*epoch*/, int64_t position) const override {
    return (position / batch_ * world_size_ + rank_) * batch_ + position % batch_;
  }

 private:
  const int64_t batch_, rank_, world_size_;
  int64_t size_ = 0;
};

}  // namespace

bool can_be_shared(const std::vector<std::string>& metrics, const MetricOptions& options) {
  return std::ranges::none_of(metrics, [&](const std::string& name) {
    return metric_kind(name).make(options)->state().empty();
  });
}

std::shared_ptr<const data::Sampler> batches_of_rank(int64_t samples, int64_t batch, int rank,
                                                     int world_size) {
  return std::make_shared<BatchesOfRank>(samples, batch, rank, world_size);
}

namespace {

/// Outputs of a network, of fewer and fewer samples at a time while the device has no room for
/// more: they do not depend on each other.
class Outputs {
 public:
  explicit Outputs(nn::Module& model) : model_(model) {}

  Tensor of(const Tensor& x) {
    const int64_t samples = x.rank() > 0 ? x.size(0) : 1;
    while (true) {
      const int64_t part = std::min(most_, samples);
      try {
        return part == samples ? model_(x) : in_parts(x, part);
      } catch (const OutOfMemory&) {
        if (part < 2) throw;
        most_ = part / 2;
      }
    }
  }

 private:
  Tensor in_parts(const Tensor& x, int64_t part) {
    std::vector<Tensor> all;
    for (int64_t first = 0; first < x.size(0); first += part) {
      const int64_t end = std::min(first + part, x.size(0));
      all.push_back(model_(x.slice(0, first, end)));
      BRIM_CHECK(all.back().rank() > 0 && all.back().size(0) == end - first, ShapeError,
                 "[eval] a batch of {} does not fit, and the network's output {} has no samples of "
                 "its own to be put together; give a smaller batch",
                 x.size(0), all.back().shape().str());
    }
    return cat(all);
  }

  nn::Module& model_;
  int64_t most_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

double Evaluation::metric(std::string_view name) const {
  std::vector<std::string> names;
  for (const Value& value : metrics) {
    if (value.name == name) return value.value;
    names.push_back(value.name);
  }
  raise<IndexError>("[eval] this evaluation has no metric '{}'{}", name, suggestion(name, names));
}

Evaluation evaluate(nn::Module& model, data::DeviceLoader& feed, const Recipe& recipe,
                    const TaskData& data, const std::function<bool(double)>& progress,
                    int64_t most_wrong) {
  return evaluate_shared(model, feed, recipe, data, nullptr, progress, most_wrong);
}

Evaluation evaluate_shared(nn::Module& model, data::DeviceLoader& feed, const Recipe& recipe,
                           const TaskData& data, dist::ProcessGroup* group,
                           const std::function<bool(double)>& progress, int64_t most_wrong) {
  BRIM_CHECK(most_wrong == 0 || !group, ValueError,
             "[eval] the most wrong samples are those of one rank; evaluate without a group");
  BRIM_CHECK(feed.devices().size() == 1, ValueError,
             "[eval] the loader feeds {}; a network is evaluated on one device",
             names_of(feed.devices()));
  const diag::Scope scope("evaluate", diag::Cause::evaluation);
  const NoGrad guard;
  struct EvalMode {
    nn::Module& model;
    bool training = model.training();
    ~EvalMode() { model.train(training); }
  } const mode{model};
  model.eval();
  const data::Loader& loader = feed.loader();
  Meters meters(recipe, data, feed.devices()[0]);
  MostWrong worst(most_wrong);
  const int64_t skipped = feed.skipped();
  Outputs outputs(model);
  bool stopped = false;
  for (const data::Batch& batch : feed.epoch(0)) {
    const Tensor output = outputs.of(batch.x);
    meters.add(output, batch);
    worst.add(output, batch.y, batch.samples);
    const double done = static_cast<double>(batch.index + 1);
    stopped = progress && !progress(done / static_cast<double>(loader.batches()));
    if (stopped) break;
  }
  meters.skip(feed.skipped() - skipped);
  if (group) stopped = meters.share(*group, stopped);  // others may wait for this rank there
  if (stopped) raise<EvaluationStopped>("[eval] stopped before the end");
  Evaluation result = meters.read();
  result.most_wrong = worst.read();
  BRIM_CHECK(result.samples > 0, FileError,
             "[eval] not one of the {} samples could be read, the first being {}; give other data",
             loader.samples(), loader.dataset().describe(0));
  return result;
}

Evaluation evaluate(nn::Module& model, data::DeviceLoader& feed,
                    const std::function<bool(double)>& progress) {
  const std::vector<std::string>& classes = feed.loader().source().classes();
  TaskData data{.outputs = static_cast<int64_t>(classes.size()), .names = classes};
  return evaluate(model, feed, Recipe{}, data, progress);
}

Evaluation evaluate(nn::Module& model, const data::Loader& loader, Device device,
                    const std::function<bool(double)>& progress) {
  data::DeviceLoader feed(loader, device);
  return evaluate(model, feed, progress);
}

}  // namespace brim::train
