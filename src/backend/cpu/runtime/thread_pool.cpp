// The pool: one job at a time. All that threads share while a job runs is one word, which says how
// many parts nobody has taken yet and how many are being worked on; taking a part, and giving it
// back together with taking the next, is one exchange of it.
#include "backend/cpu/runtime/thread_pool.h"

#include <omp.h>

#include <atomic>
#include <deque>
#include <exception>
#include <thread>
#include <utility>

#include <hwy/base.h>

#include "core/float_mode.h"
#include "core/start_thread.h"
#include "diag/span.h"

namespace brim::cpu {
namespace {

constexpr int kSpins = 2000;  // of about 10-40 ns, before a thread sleeps or yields
// The shared word: parts left in the upper half, parts at work in the lower.
constexpr uint64_t kLeft = uint64_t{1} << 32;
constexpr uint64_t kAtWork = 1;
constexpr int64_t kMaxParts = int64_t{1} << 31;

thread_local bool inside_pool = false;

void pause() {
#if HWY_ARCH_X86
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

class Pool {
 public:
  void run(int64_t parts, int threads, void (*body)(const void*, int64_t), const void* context) {
    if (busy_.exchange(true, std::memory_order_acquire)) return run_alone(parts, body, context);
    try {
      while (static_cast<int>(workers_.size()) < threads - 1) start_worker();
    } catch (...) {
      busy_.store(false, std::memory_order_release);
      throw;
    }
    diag::take_helpers();
    body_ = body;
    context_ = context;
    parts_ = parts;
    flush_mode_ = float_mode() & kFlushMode;
    seats_.store(threads - 1, std::memory_order_relaxed);
    // From here on workers may take parts; the first is the caller's.
    shared_.store(static_cast<uint64_t>(parts - 1) * kLeft + kAtWork, std::memory_order_release);
    inside_pool = true;
    work(0, [this, threads] { wake(threads - 1); });
    inside_pool = false;
    diag::Join join(static_cast<int>(std::min<int64_t>(threads, parts)));
    for (int spins = 0; shared_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins >= kSpins) join.waits();
      spins < kSpins ? pause() : std::this_thread::yield();
    }
    if (sleepers_.load(std::memory_order_relaxed) > 0)
      join.slept(slept_.load(std::memory_order_relaxed));
    std::exception_ptr error;
    if (failed_.load(std::memory_order_relaxed)) [[unlikely]] {
      error = std::exchange(error_, nullptr);
      failed_.store(false, std::memory_order_relaxed);
    }
    busy_.store(false, std::memory_order_release);
    if (error) [[unlikely]]
      std::rethrow_exception(std::move(error));
  }

  static void run_alone(int64_t parts, void (*body)(const void*, int64_t), const void* context) {
    for (int64_t part = 0; part < parts; ++part) body(context, part);
  }

 private:
  struct alignas(64) Worker {
    std::atomic<uint32_t> asleep{0};
  };

  /// Runs `part`, which this thread has taken, and further ones while there are any. Calls
  /// `before_part` before each.
  template <class F>
  void work(int64_t part, const F& before_part) {
    try {
      for (;;) {
        before_part();
        body_(context_, part);
        uint64_t now = shared_.load(std::memory_order_relaxed);
        while (!shared_.compare_exchange_weak(now, now - (now >= kLeft ? kLeft : kAtWork),
                                              std::memory_order_acq_rel)) {
        }
        if (now < kLeft) return;
        part = taken_of(now);
      }
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
      uint64_t now = shared_.load(std::memory_order_relaxed);  // nobody needs the rest any more
      while (
          !shared_.compare_exchange_weak(now, now % kLeft - kAtWork, std::memory_order_acq_rel)) {
      }
    }
  }

  /// The part that was taken by the thread that found the shared word at `before`.
  int64_t taken_of(uint64_t before) const { return parts_ - static_cast<int64_t>(before / kLeft); }

  /// Whether the worker may and did take a part, which is put into `part`.
  bool take(int index, int64_t& part) {
    uint64_t now = shared_.load(std::memory_order_acquire);
    while (now >= kLeft && index < seats_.load(std::memory_order_relaxed))
      if (shared_.compare_exchange_weak(now, now - kLeft + kAtWork, std::memory_order_acq_rel)) {
        part = taken_of(now);
        return true;
      }
    return false;
  }

  void start_worker() {
    const int index = static_cast<int>(workers_.size());
    Worker& self = workers_.emplace_back();
    const auto loop = [this, index, &self] {
      inside_pool = true;
      diag::list_helper_thread();
      omp_set_num_threads(1);  // libraries called from a part must not fork again
      for (int64_t part = 0;;) {
        wait_for_part(index, self, part);
        // Computes as the caller would.
        if (const uint64_t mode = float_mode(); (mode & kFlushMode) != flush_mode_)
          set_float_mode((mode & ~kFlushMode) | flush_mode_);
        work(part, [] {});
      }
    };
    try {
      start_thread([&] { return std::thread(loop); }).detach();
    } catch (...) {
      workers_.pop_back();
      throw;
    }
  }

  void wait_for_part(int index, Worker& self, int64_t& part) {
    for (;;) {
      for (int spins = 0; spins < kSpins; ++spins) {
        if (take(index, part)) return;
        pause();
      }
      self.asleep.store(1, std::memory_order_relaxed);
      slept_.store(diag::ticks(), std::memory_order_relaxed);
      sleepers_.fetch_add(1);
      const bool found = take(index, part);
      if (!found) self.asleep.wait(1);
      self.asleep.store(0, std::memory_order_relaxed);
      sleepers_.fetch_sub(1);
      if (found) return;
    }
  }

  /// Wakes those of the first `count` workers that sleep. One that is just falling asleep may be
  /// missed, which is why the caller looks again before each of its parts; should all looks come
  /// too early, the caller does the work itself.
  void wake(int count) {
    if (sleepers_.load(std::memory_order_relaxed) == 0) return;
    for (int i = 0; i < count; ++i) {
      Worker& worker = workers_[static_cast<size_t>(i)];
      if (worker.asleep.load(std::memory_order_relaxed) == 0 || worker.asleep.exchange(0) == 0)
        continue;
      worker.asleep.notify_one();
    }
  }

  std::atomic<bool> busy_{false};  // a thread's job is running
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;    // what the first part that failed threw
  std::deque<Worker> workers_;  // their addresses stay
  std::atomic<int> sleepers_{0};
  std::atomic<uint64_t> slept_{0};  // ticks when a worker went to sleep last
  // The job. Written only while no part is left or at work.
  alignas(64) std::atomic<uint64_t> shared_{0};
  void (*body_)(const void*, int64_t) = nullptr;
  const void* context_ = nullptr;
  int64_t parts_ = 0;
  uint64_t flush_mode_ = 0;    // what the caller does with denormal numbers
  std::atomic<int> seats_{0};  // workers from this index on may not join
};

}  // namespace

bool in_parallel_loop() { return inside_pool; }

void run_parts(int64_t parts, int threads, void (*body)(const void* context, int64_t part),
               const void* context) {
  // Never destroyed: its threads wait on it until the process ends.
  static auto* pool = new Pool;
  if (inside_pool || threads <= 1 || parts <= 1 || parts > kMaxParts)
    return Pool::run_alone(parts, body, context);
  pool->run(parts, threads, body, context);
}

}  // namespace brim::cpu
