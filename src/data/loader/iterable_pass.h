// One epoch of an iterable data set. Workers take turns: whose turn it is reads the samples of its
// batch, and after that maps and collates them while the next one reads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "data/loader/batch_memory.h"
#include "data/loader/iterable_source.h"
#include "data/loader/state.h"

namespace brim::data {

class IterablePass {
 public:
  /// Of one thread.
  struct Scratch {
    Sample read, mapped, probe;
    std::vector<Sample> samples;  // of the batch
    uint64_t augmenting = 0;      // ticks of maps, since they were taken
  };
  /// What came of a batch beside its samples.
  struct Made {
    int64_t skipped = 0;
    bool ends = false;        // no batch comes behind it
    std::exception_ptr lost;  // why the last sample was left out that was
    EpochPosition after;
  };

  /// Ends the pass that reads the source. Throws what the data set throws.
  IterablePass(const Loader::State& loader, int64_t epoch, int64_t first_batch);
  ~IterablePass();
  IterablePass(const IterablePass&) = delete;
  IterablePass& operator=(const IterablePass&) = delete;

  /// Makes batch `number` of `numbers`, which it fills; each number once, by any thread.
  Made make(int64_t number, std::vector<int64_t>& numbers, BatchMemory& memory, Scratch& scratch,
            std::atomic<int64_t>& reading);
  /// The loop has the batch.
  void hand_over(EpochPosition after);
  /// Throws ValueError where another pass has begun.
  void check_running() const;
  /// No sample is read any more.
  void stop();

 private:
  enum class Got { sample, broken, end };

  void begin(const EpochPosition& from);
  void load(const std::string& state) const;
  void read(int64_t number, std::vector<int64_t>& numbers, Scratch& scratch,
            std::atomic<int64_t>& reading, Made& made);
  Got read_one(int64_t number, Sample& to, std::exception_ptr& lost);
  bool apply_maps(Sample& sample, Scratch& scratch, std::exception_ptr& lost) const;
  /// Throws ShapeError where it is not like the others.
  void check_like(const Sample& sample, const SampleRows& rows, Sample& probe) const;
  /// Calls f(); false where a sample is to be left out for what it threw.
  template <class F>
  bool attempt(const Sample& sample, std::exception_ptr& lost, const F& f) const;
  /// What samples are: the first of the epoch that was read. `first` of the batch may be null.
  std::shared_ptr<const SampleRows> settle(int64_t number, const Sample* first);
  bool has_rows() const { return stacks_ || skips_; }
  /// Asks the data set where it is.
  void anchor_here();
  void halt();

  const Loader::State& loader_;
  IterableSource& source_;
  const bool stacks_, skips_;

  // Of whose turn it is.
  EpochPosition at_;
  int64_t bytes_ = 0;  // read since the anchor

  std::atomic<bool> stopped_{false}, busy_{false};
  std::atomic<bool> superseded_{false};
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable turns_;
  int64_t turn_ = 0;     // the batch whose samples are read next
  int64_t settled_ = 0;  // no sample of those before it was good, while rows_ is null
  std::shared_ptr<const SampleRows> rows_;
};

}  // namespace brim::data
