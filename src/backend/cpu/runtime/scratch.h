// Scratch memory of parallel loops. It is taken before the loop, where running out of it leaves
// nothing half done, and kept by as many parts as run at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>

#include <brim/core/threads.h>

#include "core/context.h"

namespace brim::cpu {

/// Room of `bytes` for each part of parallel_for(n, grain, ...) that can run at the same time.
class PartScratch {
  using Taken = std::atomic<bool>;

 public:
  PartScratch(const Context& context, int64_t n, int64_t grain, size_t bytes)
      : count_(static_cast<size_t>(
            std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, num_threads()))),
        step_(kAlign + (bytes + kAlign - 1) / kAlign * kAlign),
        memory_(context.workspace(count_ * step_)) {
    for (size_t i = 0; i < count_; ++i) new (memory_.as<char>() + i * step_) Taken(false);
  }

  /// One part's room, held until the end of the scope. Aligned to 64 bytes.
  class Slot {
   public:
    explicit Slot(const PartScratch& scratch) {
      // Ends at once: there is a slot for every thread, unless their number is changed meanwhile.
      for (size_t at = 0;; at = (at + 1) % scratch.count_) {
        slot_ = scratch.memory_.as<char>() + at * scratch.step_;
        if (!taken().exchange(true, std::memory_order_acquire)) return;
        if (at + 1 == scratch.count_) std::this_thread::yield();
      }
    }
    ~Slot() { taken().store(false, std::memory_order_release); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    template <class T>
    T* as() const {
      return reinterpret_cast<T*>(slot_ + kAlign);
    }

   private:
    Taken& taken() const { return *std::launder(reinterpret_cast<Taken*>(slot_)); }
    char* slot_ = nullptr;
  };

 private:
  static constexpr size_t kAlign = 64;
  size_t count_;
  size_t step_;  // each slot: its flag in a cache line of its own, then its room
  Workspace memory_;
};

/// Bytes of `count` numbers, rounded up so that what lies behind them is aligned for vectors.
template <class T>
constexpr size_t room_for(int64_t count) {
  return (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
}

/// What lies behind `count` numbers at `p` (see room_for).
template <class U, class T>
U* behind(T* p, int64_t count) {
  return reinterpret_cast<U*>(reinterpret_cast<char*>(p) + room_for<T>(count));
}

}  // namespace brim::cpu
