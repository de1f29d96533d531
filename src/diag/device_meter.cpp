#include "diag/device_meter.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/thread_id.h"
#include "diag/span.h"

namespace brim::diag {
namespace {

/// What work is charged to, the first that runs.
constexpr Cause kRunning[] = {Cause::compute,      Cause::communication, Cause::copy_to_device,
                              Cause::copy_to_host, Cause::evaluation,    Cause::checkpoint,
                              Cause::file_write,   Cause::file_read,     Cause::compile};
constexpr size_t kMaxDevices = 64;  // of a kind; more are not measured

std::array<std::array<DeviceMeter, kMaxDevices>, kDeviceKindCount>& meters() {
  static auto* all = new std::array<std::array<DeviceMeter, kMaxDevices>, kDeviceKindCount>;
  return *all;
}

size_t place(Cause cause) { return static_cast<size_t>(cause); }

std::array<std::atomic<RecordSource*>, kDeviceKindCount> sources{};

}  // namespace

void set_record_source(DeviceKind kind, RecordSource& source) {
  sources[static_cast<size_t>(kind)].store(&source, std::memory_order_release);
}

DeviceMeter& DeviceMeter::of(Device device) {
  const size_t index = std::min(static_cast<size_t>(device.index), kMaxDevices - 1);
  return meters()[static_cast<size_t>(device.kind)][index];
}

DeviceMeter* DeviceMeter::active(Device device) {
  DeviceMeter& meter = of(device);
  return meter.measuring_.load(std::memory_order_acquire) ? &meter : nullptr;
}

Device DeviceMeter::device() const {
  const auto n = static_cast<size_t>(this - meters()[0].data());
  return {static_cast<DeviceKind>(n / kMaxDevices), static_cast<int32_t>(n % kMaxDevices)};
}

RecordSource* DeviceMeter::source() const {
  return sources[static_cast<size_t>(device().kind)].load(std::memory_order_acquire);
}

Shares DeviceMeter::start(Detail wanted) {
  {
    const std::lock_guard users(users_mutex_);
    RecordSource* const from = source();
    const bool more = wanted > detail();
    if (is_paused()) resume_paused();
    if (users_ == 0) {
      if (from) from->start(device().index, wanted);
      const std::lock_guard lock(mutex_);
      shares_ = with_pauses(shares_, resumed_at_);
      was_paused_ = false;
      in_pauses_ = in_windows_ = 0;
      running_.fill(0);
      all_running_ = 0;
      charged_until_ = ticks();
      slowdowns_.clear();
      unrated_ = 0;
      slowed_ = 0;
      idle_since_.store(charged_until_);
      measuring_.store(true, std::memory_order_release);
    } else if (from && more) {
      from->change(device().index, wanted);
    }
    ++users_;
    users_of_nodes_ += wanted == Detail::nodes ? 1 : 0;
  }
  return read();
}

void DeviceMeter::stop(Detail wanted) {
  const std::lock_guard users(users_mutex_);
  collect();
  RecordSource* const from = source();
  const Detail before = detail();
  users_of_nodes_ -= wanted == Detail::nodes ? 1 : 0;
  if (--users_ > 0) {
    if (from && detail() != before) from->change(device().index, detail());
    return;
  }
  if (const uint64_t paused_at = paused_at_.exchange(0)) {
    const std::lock_guard lock(mutex_);
    in_pauses_ += ticks() - paused_at;
    resumed_at_ = ticks();
    return;
  }
  measuring_.store(false, std::memory_order_release);
  if (from) from->stop(device().index);
  const std::lock_guard lock(mutex_);
  if (was_paused_) in_windows_ += ticks() - std::exchange(resumed_at_, ticks());
}

void DeviceMeter::pause() {
  const std::lock_guard users(users_mutex_);
  RecordSource* const from = source();
  if (!from || users_ != 1 || users_of_nodes_ > 0 || is_paused()) return;
  collect();
  measuring_.store(false, std::memory_order_release);
  from->stop(device().index);
  const std::lock_guard lock(mutex_);
  const uint64_t now = ticks();
  const Shares idle = idle_until(now);
  for (size_t i = 0; i < kCauseCount; ++i) shares_[i] += idle[i];
  idle_since_.store(0, std::memory_order_release);
  if (was_paused_)
    in_windows_ += now - resumed_at_;
  else
    before_pauses_ = shares_;
  was_paused_ = true;
  paused_at_.store(now);
}

void DeviceMeter::resume() {
  const std::lock_guard users(users_mutex_);
  if (is_paused()) resume_paused();
}

void DeviceMeter::resume_paused() {
  source()->start(device().index, detail());
  const std::lock_guard lock(mutex_);
  const uint64_t now = ticks();
  in_pauses_ += now - paused_at_.exchange(0);
  running_.fill(0);
  all_running_ = 0;
  slowdowns_.clear();  // of times that are not told
  resumed_at_ = charged_until_ = now;
  idle_since_.store(now);
  measuring_.store(true, std::memory_order_release);
}

uint64_t DeviceMeter::unrecorded() const {
  const std::lock_guard lock(mutex_);
  return unrecorded_until(ticks());
}

uint64_t DeviceMeter::unrecorded_until(uint64_t now) const {
  return in_pauses_ + (is_paused() ? now - paused_at_.load() : 0);
}

Shares DeviceMeter::idle_until(uint64_t now) const {
  const uint64_t idle = idle_since_.load();
  return idle && now > idle && active_timeline ? active_timeline->reasons(idle, now) : Shares{};
}

Shares DeviceMeter::busy_until(uint64_t now) const {
  Shares busy{};
  const auto first =
      std::ranges::find_if(kRunning, [&](Cause cause) { return running_[place(cause)] > 0; });
  if (first != std::end(kRunning) && now > charged_until_)
    busy[place(*first)] = now - charged_until_;
  return busy;
}

Shares DeviceMeter::with_pauses(Shares charged, uint64_t now) const {
  const uint64_t missing = unrecorded_until(now);
  const uint64_t seen = in_windows_ + (was_paused_ && !is_paused() ? now - resumed_at_ : 0);
  if (missing == 0 || seen == 0) return charged;
  const double more = static_cast<double>(missing) / static_cast<double>(seen);
  for (size_t i = 0; i < kCauseCount; ++i) {
    const uint64_t sampled = charged[i] - std::min(charged[i], before_pauses_[i]);
    charged[i] += static_cast<uint64_t>(static_cast<double>(sampled) * more);
  }
  return charged;
}

void DeviceMeter::collect() const {
  if (!measuring_.load(std::memory_order_acquire)) return;
  if (RecordSource* from = source()) from->collect(device().index);
}

void DeviceMeter::advance() const {
  if (!measuring_.load(std::memory_order_acquire)) return;
  if (RecordSource* from = source()) from->advance(device().index);
}

Reason DeviceMeter::queue_now() {
  return {.queued = ticks(),
          .scope = active_meter ? active_meter->scope : Cause::other,
          .thread = thread_id()};
}

void DeviceMeter::charge_until(uint64_t now) {
  if (now <= charged_until_) return;
  for (const Cause cause : kRunning) {
    if (running_[place(cause)] == 0) continue;
    shares_[place(cause)] += now - charged_until_;
    if (cause == Cause::compute) rate(charged_until_, now);
    break;
  }
  charged_until_ = now;
}

void DeviceMeter::rate(uint64_t from, uint64_t to) {
  while (from < to && !slowdowns_.empty()) {
    const auto [until, share] = slowdowns_.front();
    const uint64_t end = std::min(to, until);
    if (from < end) {
      slow_down(shares_, end - from, share);
      from = end;
    }
    if (until <= to) slowdowns_.pop_front();
  }
  unrated_ += to - from;
}

void DeviceMeter::slow_down(Shares& shares, uint64_t compute, double share) {
  const auto part = static_cast<uint64_t>(static_cast<double>(compute) * share);
  const uint64_t lost = std::min(part, shares[place(Cause::compute)]);
  shares[place(Cause::compute)] -= lost;
  shares[place(Cause::throttle)] += lost;
}

void DeviceMeter::begin_at(uint64_t now, Cause cause, const Reason& reason) {
  const std::lock_guard lock(mutex_);
  if (now == 0) now = ticks();  // under the lock, so that streams come in the order of time
  const uint64_t idle = idle_since_.exchange(0, std::memory_order_relaxed);
  if (idle && now > idle) {
    // Until it was queued: what the host did, if the device was idle then.
    const uint64_t queued = std::clamp(reason.queued, idle, now);
    if (queued > idle) {
      uint64_t before = queued - idle;
      const Shares host = reasons_of_thread(reason.thread, idle, queued);
      for (size_t i = 0; i < kCauseCount; ++i) {
        shares_[i] += host[i];
        before -= host[i];
      }
      shares_[place(Cause::other)] += before;  // by a thread that nobody measures
    }
    const uint64_t after = now - queued;
    // Then it was queued, and not begun: another device was late, or the queue itself was.
    shares_[place(reason.waited == Cause::other ? Cause::dispatch : reason.waited)] += after;
    charged_until_ = now;
  } else {
    charge_until(now);
  }
  ++running_[place(cause)];
  ++all_running_;
}

void DeviceMeter::end_at(uint64_t now, Cause cause, uint64_t throttled) {
  const std::lock_guard lock(mutex_);
  int& running = running_[place(cause)];
  if (running == 0) return;  // it began before the measuring did
  now = std::max(now == 0 ? ticks() : now, charged_until_);
  charge_until(now);
  const uint64_t lost = std::min(throttled, shares_[place(cause)]);
  shares_[place(cause)] -= lost;
  shares_[place(Cause::throttle)] += lost;
  --running;
  if (--all_running_ == 0) idle_since_.store(now, std::memory_order_release);
}

void DeviceMeter::throttled(double share, uint64_t at) {
  const std::lock_guard lock(mutex_);
  if (at == 0) at = ticks();
  slowed_ = std::clamp(share, 0.0, 1.0);
  slow_down(shares_, unrated_, slowed_);
  unrated_ = 0;
  if (at <= charged_until_) return;
  if (!slowdowns_.empty() && slowdowns_.back().share == slowed_)
    slowdowns_.back().until = at;
  else
    slowdowns_.push_back({at, slowed_});
}

Shares DeviceMeter::read() const {
  collect();
  const std::lock_guard lock(mutex_);
  Shares shares = shares_;
  slow_down(shares, unrated_, slowed_);
  const uint64_t now = ticks();
  const Shares tail = idle_until(now);
  for (size_t i = 0; i < kCauseCount; ++i) shares[i] += tail[i];
  return with_pauses(shares, now);
}

DeviceMeter::SoFar DeviceMeter::read_so_far() const {
  const std::lock_guard lock(mutex_);
  SoFar so_far{shares_, ticks()};
  slow_down(so_far.shares, unrated_, slowed_);
  if (has_records()) {  // they are behind; but in a pause there will be none
    if (!is_paused()) so_far.until = charged_until_;
  } else {
    const Shares idle = idle_until(so_far.until), busy = busy_until(so_far.until);
    for (size_t i = 0; i < kCauseCount; ++i) so_far.shares[i] += idle[i] + busy[i];
  }
  so_far.shares = with_pauses(so_far.shares, so_far.until);
  return so_far;
}

}  // namespace brim::diag
