// Chooses the number of workers and slots while the loader runs: tries one change at a time,
// compares the rate before and after, and takes it back if it did not help. A change that failed is
// not tried again, and what makes it add and what makes it remove a worker exclude each other, so
// under a steady load it comes to rest. Nothing of it changes what is in a batch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace brim::data {

/// How large a loader is.
struct LoaderSizes {
  int workers = 0;
  int slots = 1;

  bool operator==(const LoaderSizes&) const = default;
};

/// What happened in a window of an epoch.
struct MeasurementWindow {
  int64_t batches = 0;
  double seconds = 0;
  double waited = 0;  ///< seconds in which the loop waited for a batch
  double idle = 0;    ///< seconds in which workers waited for a slot, summed over them

  /// Long enough to judge by.
  bool has_enough_samples() const { return batches >= 16 && seconds >= 0.5; }
};

class Tuner {
 public:
  struct Limits {
    int least_workers, max_workers, max_slots;
  };

  Tuner(LoaderSizes start, Limits limits, std::function<void(const std::string&)> log = {})
      : sizes_(start), limits_(limits), log_(std::move(log)) {}

  LoaderSizes sizes() const { return sizes_; }
  /// Whether there is anything to choose.
  bool active() const {
    return sizes_.workers > 0 &&
           (limits_.least_workers < limits_.max_workers || sizes_.slots < limits_.max_slots);
  }

  /// Takes a window at `sizes()` and returns what to go on with.
  LoaderSizes observe(const MeasurementWindow& window);

 private:
  struct Trial {
    LoaderSizes before;
    double rate;  // batches a second before it
  };

  /// Whether the change on trial failed and is taken back.
  bool judge(double rate);
  void change(LoaderSizes to, double rate, const std::string& why);

  LoaderSizes sizes_;
  Limits limits_;
  std::optional<Trial> trial_;
  std::function<void(const std::string&)> log_;
};

}  // namespace brim::data
