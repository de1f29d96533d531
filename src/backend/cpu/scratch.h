// Scratch memory of parallel loops. It is taken before the loop, where running out of it leaves
// nothing half done, and kept by as many parts as run at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include <brim/core/threads.h>

#include "core/context.h"

namespace brim::cpu {

/// Room of `bytes` for each part of parallel_for(n, grain, ...) that can run at the same time.
class PartScratch {
 public:
  PartScratch(const Context& context, int64_t n, int64_t grain, size_t bytes)
      : count_(std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, num_threads())),
        step_((bytes + kAlign - 1) / kAlign * kAlign),
        memory_(context.workspace(static_cast<size_t>(count_) * step_)),
        taken_(new std::atomic<bool>[static_cast<size_t>(count_)] {}) {}

  /// One part's room, held until the end of the scope.
  class Slot {
   public:
    explicit Slot(const PartScratch& scratch) : scratch_(scratch) {
      // Ends at once: there is a slot for every thread, unless their number is changed meanwhile.
      while (scratch_.taken_[at_].exchange(true, std::memory_order_acquire))
        if (++at_ == static_cast<size_t>(scratch_.count_)) {
          at_ = 0;
          std::this_thread::yield();
        }
    }
    ~Slot() { scratch_.taken_[at_].store(false, std::memory_order_release); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    template <class T>
    T* as() const {
      return reinterpret_cast<T*>(scratch_.memory_.as<char>() + at_ * scratch_.step_);
    }

   private:
    const PartScratch& scratch_;
    size_t at_ = 0;
  };

 private:
  static constexpr size_t kAlign = 64;
  int64_t count_;
  size_t step_;
  Workspace memory_;
  std::unique_ptr<std::atomic<bool>[]> taken_;
};

}  // namespace brim::cpu
