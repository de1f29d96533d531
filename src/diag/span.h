// A span charges the time between its construction and its end to one cause of the account. Spans
// nest: an inner span's time is taken off the outer one, so causes never overlap within a thread.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <chrono>
#endif

#include <brim/diag/account.h>

namespace brim::diag {

/// Ticks of the cheapest clock that runs at a constant rate (TSC on x86-64).
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// How many ticks a microsecond has. Measured on first use, which takes a millisecond.
double ticks_per_us();

/// Who wants to know each span of a thread, and not only the sums (see host_timeline.h, trace.cpp).
class SpanListener {
 public:
  virtual ~SpanListener() = default;
  virtual void opened(const char* name, Cause cause, uint64_t at) = 0;
  /// `outer` is the cause of the span around it, or `other`.
  virtual void closed(const char* name, Cause cause, uint64_t begin, uint64_t end, Cause outer) = 0;
};

/// What one thread measures while an Accountant is active there.
struct Meter {
  uint64_t self[kCauseCount] = {};  // ticks
  uint64_t child = 0;               // ticks of finished spans inside the span that is open now
  Cause open = Cause::other;        // cause of that span
  SpanListener* listener = nullptr;
};

/// The meter of this thread; null when nobody is measuring, and then a span costs one load.
extern thread_local constinit Meter* active_meter [[gnu::tls_model("initial-exec")]];

class Span {
 public:
  Span(const char* name, Cause cause) : meter_(active_meter), name_(name), cause_(cause) {
    if (!meter_) return;
    outer_child_ = meter_->child;
    outer_ = meter_->open;
    meter_->child = 0;
    meter_->open = cause;
    begin_ = ticks();
    if (meter_->listener) meter_->listener->opened(name_, cause_, begin_);
  }
  ~Span() {
    if (!meter_) return;
    const uint64_t end = ticks(), total = end - begin_;
    meter_->self[static_cast<int>(cause_)] += total - meter_->child;
    meter_->child = outer_child_ + total;
    meter_->open = outer_;
    if (meter_->listener) meter_->listener->closed(name_, cause_, begin_, end, outer_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Meter* meter_;
  const char* name_;
  Cause cause_;
  Cause outer_ = Cause::other;
  uint64_t begin_ = 0;
  uint64_t outer_child_ = 0;
};

}  // namespace brim::diag
