// What a measured thread is doing, for others to look at: of a training that hangs, where it does.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <brim/diag/account.h>

namespace brim::diag {

/// What a thread does at one moment.
struct Doing {
  std::vector<std::string> spans;  ///< that are open, the outermost first; empty: user code
  Cause cause = Cause::user;       ///< of the innermost
  double seconds = 0;              ///< since the last one began or ended
};

/// The spans of one thread that are open. That thread writes it; it waits for nobody, so what
/// others read may mix two moments that are close.
class Activity {
 public:
  static constexpr uint32_t kDepth = 12;  ///< outermost spans whose names are kept

  /// For any thread.
  Doing read() const;

  // What follows is for the thread.

  /// A span begins at `at` (ticks()); for its own thread.
  void open(const char* name, Cause cause, uint64_t at) {
    const uint32_t depth = depth_.load(std::memory_order_relaxed);
    if (depth < kDepth) names_[depth].store(name, std::memory_order_relaxed);
    depth_.store(depth + 1, std::memory_order_relaxed);
    turn(cause, at);
  }
  /// `cause`: of the span around the one that ends.
  void close(Cause cause, uint64_t at) {
    depth_.store(depth_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    turn(cause, at);
  }

 private:
  void turn(Cause cause, uint64_t at) {
    cause_.store(cause, std::memory_order_relaxed);
    since_.store(at, std::memory_order_relaxed);
  }

  std::array<std::atomic<const char*>, kDepth> names_{};
  std::atomic<uint32_t> depth_{0};
  std::atomic<Cause> cause_{Cause::user};
  std::atomic<uint64_t> since_{0};  // ticks; 0: no span yet
};

}  // namespace brim::diag
