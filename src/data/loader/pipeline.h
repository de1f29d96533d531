// The engine of one epoch: a ring of slots that workers fill in order of claim and the loop empties
// in order of number. All shared fields are guarded by one mutex, held for nanoseconds per batch.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/loader/state.h"

namespace brim::data {

class Epoch::Pipeline {
 public:
  Pipeline(std::shared_ptr<Loader::State> state, int64_t epoch, int64_t first_batch);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Starts the workers; separate from the constructor so that a failure to start one joins the
  /// others.
  void start();
  Batch* next();

 private:
  struct Slot {
    Tensor x, y;  // memory for a full batch
    Batch batch;  // what the loop sees: views of x and y
    int64_t ready = -1;
    int64_t skipped = 0;
    std::exception_ptr error;
  };
  // Buffers of one thread.
  struct Scratch {
    std::vector<uint8_t> file;
    Image image;
    TransformScratch transform;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  Batch* next_inline();
  Batch* next_from_workers();
  /// Makes batch `number` in `slot`; keeps what was thrown in the slot.
  void fill(int64_t number, Slot& slot, Scratch& scratch) noexcept;
  void add_sample(int64_t sample, Slot& slot, Scratch& scratch);
  /// Prepares the slot's memory for another batch.
  void recycle(Slot& slot);
  /// Hands the slot's batch to the loop, or throws what its making threw.
  Batch* hand_over(Slot& slot);
  Slot& slot_of(int64_t number) { return slots_[static_cast<size_t>(number) % slots_.size()]; }

  const std::shared_ptr<Loader::State> state_;
  const int64_t epoch_;
  const Order order_;
  const int64_t last_;  // one past the last batch
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;
  Scratch scratch_;  // of the calling thread

  int64_t position_;        // next batch for the loop; touched by the loop only
  Slot* handed_ = nullptr;  // the slot that the loop looks at

  std::mutex mutex_;
  std::condition_variable can_work_, can_take_;
  int64_t next_;      // next batch to be claimed by a worker
  int64_t released_;  // batches below are given back
  int64_t awaited_ = -1;
  int idle_ = 0;
  bool stop_ = false;
};

}  // namespace brim::data
