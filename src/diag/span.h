// A span charges the time between its construction and its end to one cause of the account. Spans
// nest: an inner span's time is taken off the outer one, so causes never overlap within a thread.
#pragma once

#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <chrono>
#endif

#include <brim/diag/account.h>
#include <brim/diag/activity.h>

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

/// Adds its ticks to a sum, also where an exception ends it.
class AddTicks {
 public:
  explicit AddTicks(uint64_t& sum) : sum_(sum) {}
  ~AddTicks() { sum_ += ticks() - begin_; }
  AddTicks(const AddTicks&) = delete;
  AddTicks& operator=(const AddTicks&) = delete;

 private:
  uint64_t& sum_;
  uint64_t begin_ = ticks();
};

/// Who wants to know each span of a thread, and not only the sums (see host_timeline.h, trace.cpp).
class SpanListener {
 public:
  virtual ~SpanListener() = default;
  virtual void opened(const char* name, Cause cause, uint64_t at) = 0;
  /// The time since the last span was too short for anything but brim's own.
  virtual void bridged() {}
  /// Of what the thread did until `at`, so many ticks were stolen. What ends then is told next.
  virtual void was_stolen(uint64_t /*ticks*/, uint64_t /*at*/) {}
  /// `outer` is the cause of the span around it, or `user`.
  virtual void closed(const char* name, Cause cause, uint64_t begin, uint64_t end, Cause outer) = 0;
};

class StolenTime;
struct Meter;
/// Has the time that others stole since the last call taken off `cause`, which had so many ticks
/// until `at`.
void charge_stolen(const Meter& meter, Cause cause, uint64_t ticks, uint64_t at);
/// Seconds that the thread, or the calling one for 0, has waited for a core so far. Reading them
/// takes some microseconds. `otherwise` where that cannot be read.
double run_delay(int thread, double otherwise);
/// Where the first one cannot be read: more than will ever come, so that nothing came since.
inline constexpr double kUnknownDelay = 1e30;

/// What one thread measures while an Accountant is active there.
struct Meter {
  uint64_t self[kCauseCount] = {};  // ticks
  uint64_t child = 0;               // ticks of finished spans inside the span that is open now
  Cause open = Cause::user;         // cause of that span
  Cause scope = Cause::other;       // of the Scope around it; other: none
  uint64_t closed = 0;              // when the last span ended that user code was around
  uint64_t bridge = 0;              // ticks between two spans that are no user code yet
  uint64_t helped = 0;              // ticks of kernels that helpers took off this thread
  uint64_t began = 0;               // when the newest span did
  uint32_t threads = 0;             // that worked on the kernel of the open span; 0: this one alone
  uint64_t long_span = ~uint64_t{};  // ticks from which it is asked whether a core was there
  StolenTime* stolen = nullptr;
  SpanListener* listener = nullptr;
  Activity* activity = nullptr;
};

/// The calling thread works on kernels of others, and is listed from now on: what such threads are
/// stolen makes kernels longer, too. For threads that do nothing else.
void list_helper_thread();
/// From now on the helpers work for the calling thread.
void take_helpers();

/// The meter of this thread; null when nobody is measuring, and then a span costs one load.
extern thread_local constinit Meter* active_meter [[gnu::tls_model("initial-exec")]];

/// The end of a kernel that `threads` threads worked on, where the calling one waits for the
/// others.
class Join {
 public:
  explicit Join(int threads) : meter_(active_meter) {
    if (meter_) meter_->threads = static_cast<uint32_t>(threads);
  }
  /// It goes on waiting, longer than threads do that all have a core. Called again and again.
  void waits() {
    if (!meter_) return;
    const uint64_t now = ticks();
    if (!worked_) worked_ = now;
    // Asking takes some microseconds. One that has no core now is counted when it gets one.
    if (!asked_ && now - worked_ > meter_->long_span / 10) begin_wait();
  }
  /// Since then the others had nothing to do, and slept.
  void slept(uint64_t since) {
    if (meter_ && since > meter_->began) slept_ = since;
  }
  ~Join() {
    if (worked_ | slept_) [[unlikely]]
      end_wait();
  }
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

 private:
  void begin_wait() noexcept;
  void end_wait() const noexcept;

  Meter* meter_;
  uint64_t worked_ = 0, slept_ = 0;  // since when; 0: it was not so
  bool asked_ = false;               // what helpers were stolen before
};

/// Whether kernels count there, which several threads work on.
constexpr bool has_helpers(Cause cause) {
  return cause == Cause::compute || cause == Cause::compile || cause == Cause::evaluation;
}

class Span {
 public:
  Span(const char* name, Cause cause) : meter_(active_meter), name_(name), cause_(cause) {
    if (!meter_) return;
    begin_ = ticks();
    if (meter_->scope != Cause::other) cause_ = meter_->scope;
    meter_->began = begin_;
    outer_threads_ = std::exchange(meter_->threads, 0);
    outer_ = meter_->open;
    if (outer_ == Cause::user) after_user_code();
    if (cause_ == Cause::user) meter_->closed = begin_;
    outer_child_ = meter_->child;
    meter_->child = 0;
    meter_->open = cause_;
    if (meter_->activity) meter_->activity->open(name_, cause_, begin_);
    if (meter_->listener) meter_->listener->opened(name_, cause_, begin_);
  }
  ~Span() {
    if (!meter_) return;
    const uint64_t end = ticks(), total = end - begin_, self = total - meter_->child;
    meter_->self[static_cast<int>(cause_)] += self;
    if (const uint64_t threads = meter_->threads; threads && has_helpers(cause_))
      meter_->helped += self * (threads - 1) / threads;
    meter_->threads = outer_threads_;
    if (self >= meter_->long_span) charge_stolen(*meter_, cause_, self, end);
    meter_->child = outer_child_ + total;
    meter_->open = outer_;
    if (meter_->activity) meter_->activity->close(outer_, end);
    if (outer_ == Cause::user) meter_->closed = end;
    if (meter_->listener) meter_->listener->closed(name_, cause_, begin_, end, outer_);
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  void after_user_code() {
    const uint64_t gap = begin_ - meter_->closed;
    if (gap >= meter_->long_span) charge_stolen(*meter_, Cause::user, gap, begin_);
    if (gap >= meter_->bridge) return;
    // From one op to the next one, checks and shapes are brim's.
    meter_->self[static_cast<int>(Cause::dispatch)] += gap;
    meter_->child += gap;
    if (meter_->listener) meter_->listener->bridged();
  }

  Meter* meter_;
  const char* name_;
  Cause cause_;
  Cause outer_ = Cause::user;
  uint32_t outer_threads_ = 0;
  uint64_t begin_ = 0;
  uint64_t outer_child_ = 0;
};

/// The causes of scopes: what is queued inside one is charged to it.
constexpr bool is_scope(Cause cause) {
  return cause == Cause::compile || cause == Cause::checkpoint || cause == Cause::file_read ||
         cause == Cause::file_write || cause == Cause::evaluation;
}

/// A span that all spans inside are charged to as well, and what they queue on devices: a
/// checkpoint with the copies that it reads. The outermost one counts. `cause`: one of is_scope().
class Scope {
 public:
  Scope(const char* name, Cause cause) : span_(name, cause), meter_(active_meter) {
    if (!meter_) return;
    outer_ = meter_->scope;
    if (outer_ == Cause::other) meter_->scope = cause;
  }
  ~Scope() {
    if (meter_) meter_->scope = outer_;
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Span span_;
  Meter* meter_;
  Cause outer_ = Cause::other;
};

}  // namespace brim::diag
