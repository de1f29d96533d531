// The pool: one job at a time, joined through a gate.
#include "backend/cpu/thread_pool.h"

#include <omp.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <hwy/base.h>

namespace brim::cpu {
namespace {

constexpr uint32_t kClosed = 1u << 31;  // in gate_: nobody may join the job any more
constexpr int kSpins = 2000;            // of about 10-40 ns, before a thread sleeps or yields

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
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return run_alone(parts, body, context);
    while (started_ < threads - 1) start_thread();
    body_ = body;
    context_ = context;
    parts_ = parts;
    seats_.store(threads - 1, std::memory_order_relaxed);
    next_.store(0, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    gate_.store(0, std::memory_order_release);  // from here on threads may join
    epoch_.fetch_add(1);
    if (sleepers_.load() > 0) epoch_.notify_all();
    inside_pool = true;
    take_parts();
    inside_pool = false;
    // Close the gate, then wait for those who got in: they hold the last parts.
    gate_.fetch_or(kClosed, std::memory_order_acq_rel);
    for (int spins = 0; gate_.load(std::memory_order_acquire) != kClosed; ++spins)
      spins < kSpins ? pause() : std::this_thread::yield();
    if (failed_.load(std::memory_order_relaxed)) [[unlikely]]
      std::rethrow_exception(std::exchange(error_, nullptr));
  }

  static void run_alone(int64_t parts, void (*body)(const void*, int64_t), const void* context) {
    for (int64_t part = 0; part < parts; ++part) body(context, part);
  }

 private:
  void take_parts() {
    try {
      for (;;) {
        const int64_t part = next_.fetch_add(1, std::memory_order_relaxed);
        if (part >= parts_) return;
        body_(context_, part);
      }
    } catch (...) {
      next_.store(parts_, std::memory_order_relaxed);  // nobody needs the rest any more
      if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
    }
  }

  bool join() {
    uint32_t gate = gate_.load(std::memory_order_relaxed);
    while (!(gate & kClosed))
      if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  void start_thread() {
    std::thread([this] {
      inside_pool = true;
      omp_set_num_threads(1);  // libraries called from a part must not fork again
      uint32_t seen = 0;
      for (;;) {
        seen = wait_for_job(seen);
        if (!join()) continue;
        if (seats_.fetch_sub(1, std::memory_order_relaxed) > 0) take_parts();
        gate_.fetch_sub(1, std::memory_order_acq_rel);
      }
    }).detach();
    ++started_;
  }

  uint32_t wait_for_job(uint32_t seen) {
    for (int spins = 0; spins < kSpins; ++spins) {
      const uint32_t epoch = epoch_.load(std::memory_order_acquire);
      if (epoch != seen) return epoch;
      pause();
    }
    ++sleepers_;
    epoch_.wait(seen);
    --sleepers_;
    return epoch_.load(std::memory_order_acquire);
  }

  std::mutex mutex_;  // held by the thread whose job it is
  int started_ = 0;
  void (*body_)(const void*, int64_t) = nullptr;
  const void* context_ = nullptr;
  int64_t parts_ = 0;
  alignas(64) std::atomic<uint32_t> gate_{kClosed};  // threads inside the job
  std::atomic<int> seats_{0};                        // how many of them may work
  std::atomic<bool> failed_{false};                  // a part threw
  std::exception_ptr error_;                         // what the first of them threw
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::atomic<int> sleepers_{0};
};

}  // namespace

void run_parts(int64_t parts, int threads, void (*body)(const void* context, int64_t part),
               const void* context) {
  // Never destroyed: its threads wait on it until the process ends.
  static auto* pool = new Pool;
  if (inside_pool || threads <= 1 || parts <= 1) return Pool::run_alone(parts, body, context);
  pool->run(parts, threads, body, context);
}

}  // namespace brim::cpu
