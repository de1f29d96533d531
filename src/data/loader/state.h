// What a Loader and its running epochs share.
#pragma once

#include <brim/data/loader.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/pictures.h"
#include "data/dataset/sample_access.h"
#include "data/keyed.h"
#include "data/loader/iterable_source.h"
#include "data/loader/order.h"
#include "data/loader/raw_layout.h"
#include "data/loader/tuner.h"
#include "data/loader/worker_clock.h"

namespace brim::data {

/// What a sample's random choices depend on.
inline uint64_t sample_key(uint64_t seed, int64_t epoch, int64_t sample) {
  return key64(seed, 0x6175676d, static_cast<uint64_t>(epoch), static_cast<uint64_t>(sample));
}

struct Loader::State {
  State(std::shared_ptr<const Source> from, const Transform& how, const LoaderOptions& asked);
  State(std::shared_ptr<const Dataset> from, const LoaderOptions& asked);
  State(std::shared_ptr<IterableSource> from, const LoaderOptions& asked);

  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int64_t full_batch() const { return order ? order->largest() : options.batch; }
  /// Throws ValueError for iterable data.
  const BatchOrder& known_order() const;
  /// Bytes of a sample, where they are not all the same of the first one.
  int64_t sample_bytes() const;
  /// Of raw pictures.
  RawLayout layout() const { return {full_batch(), pictures->raw_shape}; }
  /// Throws ValueError where the data set has none.
  const LabelledPictures& checked_pictures() const;
  /// Whether batches are made in pinned memory.
  bool pinned() const { return !options.target.is_cpu(); }
  int slots_at_first() const;
  LoaderSizes sizes() const;
  /// Whether `observe` may ever change the sizes.
  bool tunes() const { return tunes_; }
  std::vector<std::string> decisions() const;
  /// What an epoch goes on from before batch `batch`: see Loader::state().
  std::string state(int64_t epoch, int64_t batch) const;
  /// Says that the loop waits, for this sample of batch `number`.
  void tell_stall(int64_t number, int64_t sample) const;
  /// What worker number `worker` of an epoch did until that ended.
  void add_worker_ticks(size_t worker, const WorkerTicks& ticks);
  std::vector<WorkerAccount> workers() const;
  /// What epochs that ended have measured since the last choice, for the next one to add to.
  MeasurementWindow take_window();
  void keep_window(const MeasurementWindow& window);

  std::shared_ptr<const Dataset> data;       // null for iterable data
  std::shared_ptr<IterableSource> iterable;  // instead of it
  std::shared_ptr<const LabelledPictures>
      pictures;                             // the same, where it is pictures with labels; or null
  const LoaderOptions wanted;               // as asked for
  LoaderOptions options;                    // with what was left open chosen
  SampleRows rows;                          // what a sample is, or the first one
  std::unique_ptr<const BatchOrder> order;  // null for iterable data
  /// After so long the loop says which sample it waits for.
  std::chrono::milliseconds patience{5000};
  std::atomic<int64_t> skipped{0};
  std::atomic<int64_t> ready{0};       // batches that workers have made and nobody has taken
  std::atomic<int64_t> next_epoch{0};  // after the one begun last

  // What a running epoch asks after each batch; a test may put its own rules here.
  std::function<bool(const MeasurementWindow&)> has_enough_samples =
      [](const MeasurementWindow& s) { return s.has_enough_samples(); };
  std::function<LoaderSizes(const MeasurementWindow&)> observe;

 private:
  State(std::shared_ptr<const LabelledPictures> from, const LoaderOptions& asked);
  State(std::shared_ptr<const Dataset> from, std::shared_ptr<const LabelledPictures> as_pictures,
        const LoaderOptions& asked);
  /// Throws ValueError, DeviceError for what no loader can do.
  void check_options() const;
  /// Chooses what was left open; `workers` are those to begin with, `bytes` those of a batch.
  void choose_sizes(int workers, int64_t bytes);
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
