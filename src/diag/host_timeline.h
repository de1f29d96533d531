// What one thread of the host did lately, so that an idle device can tell what it waited for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "diag/span.h"

namespace brim::diag {

/// Ticks by cause.
using Shares = std::array<uint64_t, kCauseCount>;

class HostTimeline {
 public:
  explicit HostTimeline(uint64_t now) { add(Cause::other, now); }

  /// From `at` on the thread works on `cause`. Causes that are no reason to wait are one: launch.
  void add(Cause cause, uint64_t at) {
    latest_ = at;
    if (!is_reason(cause)) cause = Cause::launch;
    if (count_ > 0 && pieces_[(count_ - 1) % kPieces].cause == cause) return;
    pieces_[count_ % kPieces] = {at, cause};
    ++count_;
  }

  /// When a span was opened or closed last. While an op is queued: when the op began.
  uint64_t latest() const { return latest_; }

  /// Why a device had nothing to do from `from` until `to`, when this thread queued something.
  /// Time in spans of input, host reads, the allocator and checkpoints is theirs. Time between them
  /// is `launch`, but where one of them lies before it in the same gap: then the device ran dry
  /// because of that one, and the time counts as its.
  Shares reasons(uint64_t from, uint64_t to) const;

 private:
  static constexpr size_t kPieces = 1 << 16;  // older ones are forgotten: some 10,000 steps
  static constexpr bool is_reason(Cause cause) {
    return cause == Cause::input || cause == Cause::host_read || cause == Cause::allocator ||
           cause == Cause::checkpoint;
  }
  struct Piece {
    uint64_t begin = 0;
    Cause cause = Cause::other;
  };
  std::array<Piece, kPieces> pieces_{};
  size_t count_ = 0;
  uint64_t latest_ = 0;
};

/// The timeline of this thread, or null when no device is measured.
extern thread_local constinit HostTimeline* active_timeline [[gnu::tls_model("initial-exec")]];

}  // namespace brim::diag
