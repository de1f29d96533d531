// What a Loader and its running epochs share.
#pragma once

#include <brim/data/loader.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/keyed.h"
#include "data/loader/raw_layout.h"
#include "data/loader/tuner.h"
#include "data/loader/worker_clock.h"
#include "data/permutation.h"
#include "data/transform/plan.h"

namespace brim::data {

/// What a sample's random choices depend on.
inline uint64_t sample_key(uint64_t seed, int64_t epoch, int64_t sample) {
  return key64(seed, 0x6175676d, static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample));
}

/// The order of one rank's samples in one epoch.
class Order {
 public:
  Order(int64_t total, const LoaderOptions& options, int64_t epoch);
  int64_t operator[](int64_t position) const {
    const int64_t global = (position * world_size_ + rank_) % permutation_.size();
    return shuffle_ ? permutation_[global] : global;
  }

 private:
  Permutation permutation_;
  bool shuffle_;
  int64_t rank_, world_size_;
};

struct Loader::State {
  State(std::shared_ptr<const Source> from, const Transform& how, const LoaderOptions& asked);

  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int64_t full_batch() const { return std::min(options.batch, samples); }
  int64_t sample_bytes() const { return options.raw ? raw_shape.bytes() : 4 * shape.bytes(); }
  RawLayout layout() const { return {full_batch(), raw_shape}; }
  /// Whether batches are made in pinned memory.
  bool pinned() const { return !options.target.is_cpu(); }
  int slots_at_first() const;
  LoaderSizes sizes() const;
  /// Whether `observe` may ever change the sizes.
  bool tunes() const { return tunes_; }
  std::vector<std::string> decisions() const;
  /// What worker number `worker` of an epoch did until that ended.
  void add_worker_ticks(size_t worker, const WorkerTicks& ticks);
  std::vector<WorkerAccount> workers() const;
  /// What epochs that ended have measured since the last choice, for the next one to add to.
  MeasurementWindow take_window();
  void keep_window(const MeasurementWindow& window);

  std::shared_ptr<const Source> source;
  Transform transform;
  TransformPlan plan;
  const LoaderOptions wanted;  // as asked for
  LoaderOptions options;       // with what was left open chosen
  ImageShape shape;            // after the transform
  ImageShape raw_shape;        // before its last part
  int64_t samples = 0;         // of this rank, per epoch
  int64_t batches = 0;
  std::atomic<int64_t> skipped{0};
  std::atomic<int64_t> next_epoch{0};  // after the one begun last

  // What a running epoch asks after each batch; a test may put its own rules here.
  std::function<bool(const MeasurementWindow&)> has_enough_samples =
      [](const MeasurementWindow& s) { return s.has_enough_samples(); };
  std::function<LoaderSizes(const MeasurementWindow&)> observe;

 private:
  /// Keeps new decisions and passes them on.
  void tell();

  mutable std::mutex mutex_;  // of what follows: epochs may overlap
  std::optional<Tuner> tuner_;
  std::vector<std::string> decisions_, untold_;
  std::vector<WorkerTicks> workers_;
  MeasurementWindow window_;
  bool tunes_ = false;
};

}  // namespace brim::data
