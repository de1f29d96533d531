// The engine of one epoch: slots that workers fill in order of claim and the loop empties in order
// of number. All shared fields are guarded by one mutex, held for nanoseconds per batch. Workers
// and slots may come and go between batches: which thread makes a batch in which slot changes
// nothing in it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/loader/batch_memory.h"
#include "data/loader/iterable_pass.h"
#include "data/loader/state.h"
#include "data/loader/worker_clock.h"

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
  bool ready();
  const void* loader() const { return state_.get(); }  ///< which one it is an epoch of
  /// Samples left out so far.
  int64_t skipped() const { return skipped_; }
  /// Behind the batch that next() returned last.
  std::string state() const { return state_->state(epoch_, behind_); }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  struct Slot {
    BatchMemory memory;
    Batch batch;                       // what the loop sees: views of it
    std::atomic<int64_t> reading{-1};  // the sample, for messages
    bool ready = false;
    bool ends = false;  // iterable data has no batch behind it
    int64_t skipped = 0;
    IterablePass::Made made;  // of iterable data
    std::exception_ptr error;
  };
  // Samples of one thread, and ticks of the batch in work: reading, decoding, and waiting for
  // copies out of the slot.
  struct Scratch {
    std::vector<Sample> samples{1};
    IterablePass::Scratch iterable;
    uint64_t reading = 0, decoding = 0, augmenting = 0, copies = 0;
    uint64_t all = 0;  // of the batch
  };
  /// A worker's ticks, in the order in which they were started.
  struct WorkerLog {
    uint64_t begin = diag::ticks();
    WorkerTicks ticks;
  };

  void work(WorkerLog& log);
  Batch* next_inline();
  Batch* next_from_workers();
  /// Makes batch `number` in `slot`; keeps what was thrown in the slot.
  void fill(int64_t number, Slot& slot, Scratch& scratch) noexcept;
  /// Reads the samples that slot.batch, the epoch's batch `number`, lists, and leaves out of the
  /// list what is skipped, or puts there what stands in for it.
  void read_samples(int64_t number, Slot& slot, Scratch& scratch);
  /// Whether the sample was read; if not, it is to be skipped. `key`: of what augments it.
  bool read_sample(int64_t sample, uint64_t key, Sample& to, Slot& slot, const SampleRows* rows,
                   int64_t row);
  /// The next batch and a free slot for it, which is in line from now on; the mutex is held.
  std::pair<int64_t, Slot*> claim();
  /// The slot is ready; the mutex is held.
  void finish(Slot& slot, const Scratch& scratch);
  /// Whether the loop, which has to wait, makes a batch itself meanwhile: small ones of samples in
  /// memory, for which sleeping and being woken would take as long; the mutex is held.
  bool helps() const;
  /// Makes the next batch in the loop's thread.
  void help(Lock& lock);
  /// Waits for the first in line; says so if that takes long.
  void await_first(Lock& lock);
  /// Drops the views of a slot's memory.
  static void let_go(Batch& batch);
  /// Gives the slot's memory back.
  static void clear(Slot& slot);
  /// Prepares the slot's memory for another batch.
  void recycle(Slot& slot);
  /// Makes the slot that the loop looked at free again, or ends it if there are too many.
  void give_back();
  /// Hands the slot's batch to the loop, or throws what its making threw.
  Batch* hand_over(Slot& slot);

  /// Starts or ends workers, adds slots, and says how many give_back is to leave; only the loop's
  /// thread calls it.
  void resize(LoaderSizes sizes);
  /// Counts a batch and, where a window has enough samples, lets the tuner choose. `waited` in
  /// seconds.
  void tune(Clock::time_point now, double waited);
  /// Notes how many more or fewer workers are idle; the mutex is held.
  void note_idle(int change);
  /// Wakes all idle workers; the mutex is held.
  void wake();

  const std::shared_ptr<Loader::State> state_;
  const int64_t epoch_;
  const int64_t last_;                  // one past the last batch; of iterable data, beyond all
  std::unique_ptr<IterablePass> pass_;  // of iterable data
  std::deque<std::unique_ptr<Slot>> slots_;
  std::vector<std::thread> threads_;  // those that ended too, until the end
  std::deque<WorkerLog> logs_;        // of these; the ticks are guarded by the mutex
  Scratch scratch_;                   // of the calling thread

  // Touched by the loop only.
  int64_t position_;            // next batch for the loop
  int64_t behind_;              // the batch behind that handed out last
  int64_t skipped_ = 0;         // samples, up to there
  int64_t lost_ = 0;            // of these, since the last batch
  Slot* handed_ = nullptr;      // the slot that the loop looks at
  size_t inline_turn_ = 0;      // the slot that is filled next where there are no workers
  std::vector<Slot*> retired_;  // slots without memory
  int live_ = 0, kept_ = 0;     // slots with memory, and how many are to have it
  MeasurementWindow window_;    // goes on from epoch to epoch
  double carried_seconds_ = 0;  // of it, before window_begin_
  Clock::time_point window_begin_;
  bool measuring_ = false;  // the first batch of an epoch tells nothing

  std::mutex mutex_;
  std::condition_variable can_work_, can_take_;
  int64_t next_;                  // next batch to be claimed by a worker
  std::deque<Slot*> free_;        // in the order in which they were given back
  std::deque<Slot*> line_;        // claimed and not yet handed over, from batch position_ on
  bool awaited_ = false;          // the loop waits for the first in line
  uint64_t making_ = UINT64_MAX;  // ticks that making the newest batch took
  int running_ = 0, wanted_ = 0;  // workers
  int idle_ = 0;
  double idle_seconds_ = 0;  // summed over workers, up to idle_noted_
  Clock::time_point idle_noted_;
  bool stop_ = false;
};

}  // namespace brim::data
