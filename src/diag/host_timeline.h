// What one thread of the host did lately, so that an idle device can tell what it waited for. One
// thread writes; others read meanwhile, as records of devices come late and in threads of their
// own.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "diag/span.h"

namespace brim::diag {

/// Ticks by cause.
using Shares = std::array<uint64_t, kCauseCount>;

class HostTimeline {
 public:
  explicit HostTimeline(uint64_t now) { add(Cause::user, now); }
  ~HostTimeline();
  /// Other threads read it no more.
  void hide() const;
  HostTimeline(const HostTimeline&) = delete;
  HostTimeline& operator=(const HostTimeline&) = delete;

  /// From `at` on the thread works on `cause`.
  void add(Cause cause, uint64_t at) {
    latest_ = at;
    const size_t n = count_.load(std::memory_order_relaxed);
    if (n > 0 && piece(n - 1).cause == cause) return;
    set(n, at, cause);
    count_.store(n + 1, std::memory_order_release);
  }
  /// Of what it did last, until `to`, the time from `from` on was stolen.
  void steal(uint64_t from, uint64_t to) {
    const size_t n = count_.load(std::memory_order_relaxed);
    if (n > 0) from = std::max(from, piece(n - 1).begin);
    if (from < to) add(Cause::stolen, from);
  }
  /// What it has done since the last add() was something else.
  void correct(Cause cause) {
    const size_t n = count_.load(std::memory_order_relaxed);
    set(n - 1, piece(n - 1).begin, cause);
  }

  /// When a span was opened or closed last. While an op is queued: when the op began. For the
  /// thread that writes.
  uint64_t latest() const { return latest_; }

  /// Why a device had nothing to do from `from` until `to`, when this thread queued something: what
  /// the thread did meanwhile, span by span. For any thread.
  Shares reasons(uint64_t from, uint64_t to) const;
  /// The Scope (span.h) that it was in at `at`; other: none. For any thread.
  Cause scope_at(uint64_t at) const;

 private:
  static constexpr size_t kPieces = 1 << 17;  // older ones are forgotten: some 20,000 steps
  static constexpr size_t kSpared = 1 << 10;  // the oldest: the writer may be at them
  static constexpr int kCauseBits = 5;        // ticks need no more than 59: six years
  static_assert(kCauseCount <= 1 << kCauseBits);

  struct Piece {
    uint64_t begin;
    Cause cause;
  };
  Piece piece(size_t i) const {
    const uint64_t word = pieces_[i % kPieces].load(std::memory_order_relaxed);
    return {word >> kCauseBits, static_cast<Cause>(word & ((1 << kCauseBits) - 1))};
  }
  void set(size_t i, uint64_t at, Cause cause) {
    pieces_[i % kPieces].store(at << kCauseBits | static_cast<uint64_t>(cause),
                               std::memory_order_relaxed);
  }
  /// The piece that `at` lies in, or the oldest one that is known, of `count`.
  size_t find(uint64_t at, size_t count) const;

  std::array<std::atomic<uint64_t>, kPieces> pieces_{};
  std::atomic<size_t> count_{0};
  uint64_t latest_ = 0;
};

/// The timeline of this thread, or null when it measures no device.
extern thread_local constinit HostTimeline* active_timeline [[gnu::tls_model("initial-exec")]];

/// From now on `timeline`, or none, tells what this thread does, also to other threads. Returns the
/// one before. Call it from the thread that the timeline is about, also before the timeline ends.
HostTimeline* set_active_timeline(HostTimeline* timeline);

/// HostTimeline::reasons of a thread (gettid), of whichever measured last for 0; nothing if it has
/// no timeline.
Shares reasons_of_thread(int thread, uint64_t from, uint64_t to);
/// HostTimeline::scope_at in the same way.
Cause scope_of_thread(int thread, uint64_t at);

}  // namespace brim::diag
