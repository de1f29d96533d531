#include "backend/cuda/observe/measure.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backend/cuda/observe/activity.h"
#include "backend/cuda/observe/event_records.h"
#include "backend/cuda/runtime/runtime.h"
#include "core/thread_id.h"
#include "diag/host_timeline.h"
#include "diag/span.h"

namespace brim::cuda {
namespace {

constexpr size_t kDevices = 64;
constexpr size_t kMaxRecords = size_t{4} << 20;  // that wait to be told: 250 MiB
constexpr double kCollectUs = 200'000;           // no more often, while nobody reads

/// The source of all CUDA devices.
class Records final : public diag::RecordSource, public ActivitySink {
 public:
  // What the meters ask:
  void start(int device, diag::Detail detail) override;
  void change(int device, diag::Detail detail) override;
  void stop(int device) override;
  void collect(int device) override;
  void advance(int device) override;
  int64_t taken() const override { return taken_.load(std::memory_order_relaxed); }

  // What CUPTI says:
  void work(int device, const diag::WorkRecord& record) override;
  void queued(uint64_t correlation, const diag::QueueNote& note) override;
  void lost(int device) override;
  void dropped(int64_t count) override;
  void delivered() override;

  /// Where events measure this device; else null.
  EventRecords* events(int device) {
    Measured& m = at(device);
    if (!m.on.load(std::memory_order_acquire) || !by_events_.load()) return nullptr;
    taken_.fetch_add(1, std::memory_order_relaxed);  // an event will be recorded
    return m.events.get();
  }
  void waited(int device);
  void wait_for_peer(Stream stream, uint64_t when);

 private:
  struct Measured {
    std::atomic<bool> on{false};
    std::atomic<int64_t> lost{0};
    std::unique_ptr<diag::RecordReplay> replay;
    std::unique_ptr<EventRecords> events;
    diag::Detail detail = diag::Detail::graphs;
    uint64_t collected = 0;                          // when
    uint64_t first = kNever, first_before = kNever;  // begins of work in the last two buffers
  };
  static constexpr uint64_t kNever = ~uint64_t{0};
  Measured& at(int device) { return devices_[static_cast<size_t>(device) % kDevices]; }

  /// Nodes, where anyone wants them: CUPTI does not tell devices apart.
  diag::Detail detail() const {
    return std::ranges::any_of(devices_,
                               [](const Measured& m) { return m.detail > diag::Detail::graphs; })
               ? diag::Detail::nodes
               : diag::Detail::graphs;
  }

  void apply_detail();
  /// Whether no measured device works. Does not wait.
  bool all_idle();
  /// Warns of what the account of `device` lacks.
  void warn_of_gaps(int device);

  std::mutex control_;  // of start, change and stop
  std::mutex mutex_;    // of the replays
  std::array<Measured, kDevices> devices_;
  int users_ = 0;
  std::atomic<int> collecting_{0};
  std::atomic<int64_t> taken_{0};
  std::atomic<bool> by_events_{false};
  std::atomic<int64_t> dropped_{0};                       // since the first user
  std::atomic<bool> saw_calls_{false}, saw_work_{false};  // the same
  bool warned_ = false, warned_of_detail_ = false, warned_of_work_ = false;
};

/// Never destroyed: CUPTI's thread may call until the end.
Records& records() {
  static auto* all = new Records;
  return *all;
}

void Records::apply_detail() {
  if (by_events_) return;
  const std::string why_not = change_activity(detail());
  if (why_not.empty() || warned_of_detail_) return;
  warned_of_detail_ = true;
  fmt::print(stderr,
             "brim: warning: [cuda] activity records of graphs as wholes or of their nodes cannot "
             "be chosen: {}; long runs may need more memory, traces may show less\n",
             why_not);
}

void Records::start(int device, diag::Detail wanted) {
  const std::lock_guard control(control_);
  Measured& m = at(device);
  if (users_ == 0) {
    dropped_ = 0;
    saw_calls_ = saw_work_ = false;
    const std::string why_not = start_activity(*this);
    by_events_.store(!why_not.empty());
    if (!why_not.empty() && why_not != kNoDriver && !warned_) {
      warned_ = true;
      fmt::print(stderr,
                 "brim: warning: [cuda] no activity records: {}; the account and traces show ops "
                 "and graphs, by CUDA events, instead of kernels\n",
                 why_not);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (!m.replay) m.replay = std::make_unique<diag::RecordReplay>(Device::cuda(device));
    m.replay->restart(diag::ticks());
    m.first = m.first_before = kNever;
  }
  if (by_events_) {
    if (!m.events) m.events = std::make_unique<EventRecords>(device);
    m.events->start();
  }
  m.detail = wanted;
  apply_detail();
  ++users_;
  m.on.store(true, std::memory_order_release);
}

void Records::change(int device, diag::Detail wanted) {
  const std::lock_guard control(control_);
  at(device).detail = wanted;
  apply_detail();
}

void Records::stop(int device) {
  const std::lock_guard control(control_);
  Measured& m = at(device);
  m.detail = diag::Detail::graphs;
  --users_;
  if (by_events_) {
    m.on.store(false);
    m.events->stop();
  } else if (users_ == 0) {
    ++collecting_;
    stop_activity();  // what CUPTI still had is told, too: traces have it
    --collecting_;
    {
      const std::lock_guard lock(mutex_);
      m.replay->replay(diag::ticks());
    }
    m.on.store(false);
  } else {
    m.on.store(false);
    apply_detail();
  }
  warn_of_gaps(device);
}

void Records::warn_of_gaps(int device) {
  if (const int64_t lost = at(device).lost.exchange(0); lost > 0)
    fmt::print(stderr,
               "brim: warning: [cuda] {} pieces of work of cuda:{} left no record; the account "
               "counts their time as if nothing had run, and the trace lacks them\n",
               lost, device);
  if (users_ > 0) return;
  if (const int64_t count = dropped_.exchange(0); count > 0)
    fmt::print(stderr,
               "brim: warning: [cuda] CUPTI dropped {} records, it does not say of which device; "
               "accounts count their time as if nothing had run, and traces lack them\n",
               count);
  else if (saw_calls_ && !saw_work_ && !std::exchange(warned_of_work_, true))
    fmt::print(stderr,
               "brim: warning: [cuda] CUPTI recorded calls, but no work; the account of cuda:{} "
               "is not valid\n",
               device);
}

bool Records::all_idle() {
  for (size_t i = 0; i < kDevices; ++i)
    if (devices_[i].on.load(std::memory_order_acquire) && !all_streams_idle(static_cast<int>(i)))
      return false;
  return true;
}

void Records::collect(int device) {
  Measured& m = at(device);
  if (!m.on.load(std::memory_order_acquire)) return;
  const bool all = by_events_ || all_idle();
  if (!by_events_) {
    ++collecting_;
    flush_activity(all ? Flush::all : Flush::complete);  // which calls what CUPTI says
    --collecting_;
  }
  const std::lock_guard lock(mutex_);
  m.collected = diag::ticks();
  if (!all) {
    // CUPTI may keep back finished work that shares a buffer with another device's unfinished one.
    if (m.first_before != kNever) m.replay->replay(m.first_before);
    return;
  }
  if (by_events_) m.lost += m.events->collect(*m.replay);
  m.collected = diag::ticks();
  m.first = m.first_before = kNever;
  m.replay->replay(m.collected);
}

void Records::advance(int device) {
  if (at(device).on.load(std::memory_order_acquire) && !by_events_) flush_activity(Flush::complete);
}

void Records::delivered() {
  const std::lock_guard lock(mutex_);
  for (Measured& m : devices_) {
    if (m.first == kNever || !m.on.load(std::memory_order_acquire)) continue;
    const uint64_t first = std::exchange(m.first, kNever);
    if (collecting_ > 0) {  // in another order; what collects will tell
      m.first_before = std::min(m.first_before, first);
      continue;
    }
    m.replay->replay(std::min(first, std::exchange(m.first_before, first)));
  }
}

void Records::work(int device, const diag::WorkRecord& record) {
  Measured& m = at(device);
  saw_work_.store(true, std::memory_order_relaxed);
  taken_.fetch_add(1, std::memory_order_relaxed);
  if (!m.on.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  m.first = std::min(m.first, record.begin);
  if (m.replay->size() < kMaxRecords)
    m.replay->add(record);
  else
    ++m.lost;
}

void Records::queued(uint64_t correlation, const diag::QueueNote& note) {
  saw_calls_.store(true, std::memory_order_relaxed);
  taken_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  for (Measured& m : devices_)
    if (m.on.load(std::memory_order_acquire)) m.replay->note(correlation, note);
}

void Records::wait_for_peer(Stream stream, uint64_t when) {
  Measured& m = at(stream.device.index);
  if (!m.on.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex_);
  // CUPTI numbers streams in a way of its own.
  m.replay->wait_for_peer(when, thread_id(), by_events_.load() ? stream.id : -1);
}

void Records::lost(int device) {
  saw_work_.store(true, std::memory_order_relaxed);
  Measured& m = at(device);
  if (m.on.load(std::memory_order_acquire)) ++m.lost;
}

void Records::dropped(int64_t count) { dropped_ += count; }

void Records::waited(int device) {
  Measured& m = at(device);
  if (!by_events_ || !m.on.load(std::memory_order_acquire) || !diag::active_timeline) return;
  {
    const std::lock_guard lock(mutex_);
    const auto since = static_cast<double>(diag::ticks() - m.collected);
    if (since < kCollectUs * diag::ticks_per_us()) return;
  }
  if (all_streams_idle(device)) collect(device);
}

const bool registered = [] {
  diag::set_record_source(DeviceKind::cuda, records());
  return true;
}();

}  // namespace

QueuedWork::QueuedWork(Stream stream, diag::Cause cause, const char* name)
    : stream_(stream), events_(records().events(stream.device.index)) {
  if (events_) events_->begun(stream, cause, name);
}

QueuedWork::~QueuedWork() {
  if (events_) events_->ended(stream_, "", 0);
}

void launch_queued(int device, const char* op) {
  EventRecords* const events = records().events(device);
  if (!events) return;
  const diag::HostTimeline* const timeline = diag::active_timeline;
  events->ended(Stream::current(Device::cuda(device)), op ? op : "kernel",
                timeline ? timeline->latest() : diag::ticks());
}

void stream_waits(Stream stream, int device, uint64_t at) {
  if (device != stream.device.index) records().wait_for_peer(stream, at);
  if (EventRecords* const events = records().events(stream.device.index)) events->waits(stream);
}

void device_waited(int device) { records().waited(device); }

}  // namespace brim::cuda
