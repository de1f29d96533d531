// The account of one thread or device: its meter's ticks, scaled by the steady clock over the same
// time.
#include <brim/diag/account.h>
#include <brim/diag/detail.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <numeric>
#include <thread>

#include "core/check.h"
#include "diag/account_access.h"
#include "diag/device_meter.h"
#include "diag/ranges.h"
#include "diag/span.h"
#include "diag/stolen_time.h"
#include "diag/trace_sink.h"
#include "diag/wait_sites.h"

namespace brim::diag {

thread_local constinit Meter* active_meter = nullptr;

namespace {
std::atomic<int> node_details{0};
/// Between two spans: user code that is worth a name takes longer.
constexpr double kBridgeUs = 2;
/// To ask the kernel for stolen time takes a few thousandths of that.
constexpr double kLongUs = 1500;
}  // namespace

NodeDetail::NodeDetail() { ++node_details; }
NodeDetail::~NodeDetail() { --node_details; }

double ticks_per_us() {
  static const double rate = [] {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    const uint64_t first = ticks();
    while (Clock::now() - begin < std::chrono::milliseconds(1)) {
    }
    const std::chrono::duration<double, std::micro> passed = Clock::now() - begin;
    return static_cast<double>(ticks() - first) / passed.count();
  }();
  return rate;
}

std::string_view name(Cause cause) {
  constexpr std::string_view kName[kCauseCount] = {
      "compute",    "communication", "peer",         "copy to device", "copy to host",
      "staging",    "input",         "host read",    "synchronize",    "full queue",
      "dispatch",   "user code",     "host compute", "allocator",      "compile",
      "checkpoint", "file read",     "file write",   "evaluation",     "throttle",
      "stolen",     "other"};
  return kName[static_cast<int>(cause)];
}

double Account::fraction(Cause cause) const {
  if (wall <= 0) return cause == Cause::other ? 1 : 0;
  return seconds[static_cast<size_t>(cause)] / wall;
}

std::array<double, kCauseCount> Account::percent() const {
  std::array<int, kCauseCount> tenths{}, order{};
  std::array<double, kCauseCount> rest{};
  for (size_t i = 0; i < kCauseCount; ++i) {
    const double exact = fraction(static_cast<Cause>(i)) * 1000;
    tenths[i] = static_cast<int>(std::floor(exact));
    rest[i] = exact - tenths[i];
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return rest[static_cast<size_t>(a)] > rest[static_cast<size_t>(b)];
  });
  const int missing = 1000 - std::accumulate(tenths.begin(), tenths.end(), 0);
  for (int i = 0; i < missing; ++i)
    ++tenths[static_cast<size_t>(order[static_cast<size_t>(i) % kCauseCount])];
  std::array<double, kCauseCount> percent{};
  for (size_t i = 0; i < kCauseCount; ++i) percent[i] = tenths[i] / 10.0;
  return percent;
}

std::string Account::table() const {
  const auto share = percent();
  std::array<size_t, kCauseCount> order{};
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end() - 1,
                   [&](size_t a, size_t b) { return seconds[a] > seconds[b]; });
  std::string text;
  double sum = 0;
  for (const size_t i : order) {
    const Cause cause = static_cast<Cause>(i);
    if (share[i] < 0.05 && cause != Cause::other) continue;
    sum += share[i];
    text += fmt::format("  {:<14}{:>10.3f} s {:>6.1f} %\n", name(cause), seconds[i], share[i]);
  }
  return text + fmt::format("  {:<14}{:>10.3f} s {:>6.1f} %\n", "total", wall, sum);
}

struct Accountant::State final : SpanListener {
  static inline std::atomic<uint64_t> made{0};
  const uint64_t number = ++made;  // its own, unlike its address
  const std::thread::id thread = std::this_thread::get_id();
  std::vector<Device> devices;
  std::vector<Shares> before;  // of each device, when the measuring began
  Meter meter;
  const std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  // What measured this thread before, and does again when this one ends.
  static thread_local State* innermost;
  State* enclosing = innermost;
  Meter* outer = active_meter;
  HostTimeline* outer_timeline = active_timeline;
  // Kept for devices only; one for all that are nested in a thread.
  std::shared_ptr<HostTimeline> timeline = enclosing ? enclosing->timeline : nullptr;
  std::chrono::steady_clock::time_point begin;
  uint64_t begin_ticks = 0;
  StolenTime stolen;
  const Detail detail = tracing() || node_details.load() > 0 ? Detail::nodes : Detail::graphs;

  /// Destroyed by other threads than their own, whose spans still write there.
  struct Abandoned {
    std::mutex mutex;
    std::vector<std::unique_ptr<State>> states;
    /// The state, if it is one of these, which it no longer is then.
    std::unique_ptr<State> take(const State* state) {
      const auto found = std::ranges::find(states, state, &std::unique_ptr<State>::get);
      if (found == states.end()) return nullptr;
      std::unique_ptr<State> taken = std::move(*found);
      states.erase(found);
      return taken;
    }
  };
  static Abandoned& abandoned() {
    static auto* const all = new Abandoned;
    return *all;
  }
  /// Ends those of this thread.
  static void leave_abandoned() {
    const std::lock_guard lock(abandoned().mutex);
    while (const std::unique_ptr<State> gone = abandoned().take(innermost)) {
      innermost = gone->enclosing;
      active_meter = gone->outer;
      set_active_timeline(gone->outer_timeline);
    }
    for (State* s = innermost; s; s = s->enclosing)
      while (const std::unique_ptr<State> gone = abandoned().take(s->enclosing)) {
        s->enclosing = gone->enclosing;
        s->outer = gone->outer;
        s->outer_timeline = gone->outer_timeline;
      }
  }
  static std::unique_ptr<State> make() {
    leave_abandoned();
    return std::make_unique<State>();
  }

  void check_thread() const {
    BRIM_CHECK(thread == std::this_thread::get_id(), Error,
               "[account] it is about the thread that made it; read it there");
  }
  void stop() {
    // As many as began: a device that is lost does not begin.
    for (size_t i = 0; i < before.size(); ++i) DeviceMeter::of(devices[i]).stop(detail);
    before.clear();
    if (thread != std::this_thread::get_id()) return;
    leave_abandoned();
    if (innermost == this) {
      innermost = enclosing;
      active_meter = outer;
      set_active_timeline(outer_timeline);
      if (enclosing) enclosing->absorb(*this);
      return;
    }
    // Another one was made since and goes on: it must not return to this one.
    for (State* s = innermost; s; s = s->enclosing) {
      if (s->enclosing != this) continue;
      s->enclosing = enclosing;
      s->outer = outer;
      s->outer_timeline = outer_timeline;
    }
  }
  /// What an inner one has measured is this one's, too.
  void absorb(const State& inner) {
    for (size_t i = 0; i < kCauseCount; ++i) meter.self[i] += inner.meter.self[i];
    meter.helped += inner.meter.helped;
    meter.closed = ticks();
    stolen.absorb(inner.stolen);
  }
  void was_stolen(uint64_t ticks, uint64_t at) override {
    if (timeline) timeline->steal(at - std::min(at, ticks), at);
  }
  void opened(const char* name, Cause cause, uint64_t at) override {
    if (const RangeSink* ranges = range_sink.load(std::memory_order_relaxed))
      ranges->push(name, cause);
    if (timeline) timeline->add(cause, at);
  }
  void bridged() override {
    if (timeline) timeline->correct(Cause::dispatch);
  }
  void closed(const char* name, Cause cause, uint64_t from, uint64_t to, Cause around) override {
    if (timeline) timeline->add(around, to);
    if (notes_waits() && around != cause) note_wait(cause, name, to - from);
    if (tracing()) trace_host(name, cause, from, to);
    if (const RangeSink* ranges = range_sink.load(std::memory_order_relaxed)) ranges->pop();
  }

  Account of_thread() const {
    Account account = finish(meter.self, Cause::user);
    move_stolen(account);
    return account;
  }
  Account so_far(Device device) const {
    if (device.is_cpu()) return of_thread();
    const DeviceMeter::SoFar so_far = DeviceMeter::of(device).read_so_far();
    return of_device(device, so_far.shares, so_far.until);
  }
  /// What its meter has charged, without what it had when this one was made. Throws ValueError.
  Account of_device(Device device, Shares charged, uint64_t until) const;
  void move_stolen(Account& of_thread) const {
    stolen.move(of_thread, static_cast<double>(meter.helped) / ticks_per_us() * 1e-6);
  }
  /// Ticks by cause until a tick, 0 for now, in seconds; what is missing is `rest`.
  Account finish(const uint64_t* charged, Cause rest, uint64_t until = 0) const {
    const uint64_t now_ticks = ticks();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (until == 0) until = now_ticks;
    const double total = static_cast<double>(std::max(until, begin_ticks) - begin_ticks);
    Account account{.wall = elapsed.count() * total /
                            std::max(1.0, static_cast<double>(now_ticks - begin_ticks))};
    double sum = 0;
    for (size_t i = 0; i < kCauseCount; ++i) sum += static_cast<double>(charged[i]);
    // Spans lie within the total; only a clock that jumped could make them more.
    const double scale = account.wall / std::max({total, sum, 1.0});
    double known = 0;
    for (size_t i = 0; i < kCauseCount; ++i) {
      account.seconds[i] = static_cast<double>(charged[i]) * scale;
      known += account.seconds[i];
    }
    account.seconds[static_cast<size_t>(rest)] += std::max(0.0, account.wall - known);
    return account;
  }
};

Account Accountant::State::of_device(Device device, Shares charged, uint64_t until) const {
  const auto found = std::find(devices.begin(), devices.end(), device);
  BRIM_CHECK(found != devices.end(), ValueError,
             "[account] {} is not measured; name it when the Accountant is made", device.str());
  const Shares& at_first = before[static_cast<size_t>(found - devices.begin())];
  for (size_t i = 0; i < kCauseCount; ++i) charged[i] -= std::min(charged[i], at_first[i]);
  return finish(charged.data(), Cause::other, until);
}

thread_local Accountant::State* Accountant::State::innermost = nullptr;

Accountant::Accountant(const std::vector<Device>& devices) : state_(State::make()) {
  State& s = *state_;
  for (const Device device : devices) {
    BRIM_CHECK(device.available(), DeviceError, "[account] {} does not exist; see `brim env`",
               device.str());
    if (device.is_cpu()) continue;
    s.devices.push_back(device);
  }
  // What was done so far is explained by the timeline that was kept so far.
  for (const Device device : s.devices) DeviceMeter::of(device).collect();
  s.meter.bridge = static_cast<uint64_t>(kBridgeUs * ticks_per_us());
  s.meter.long_span = static_cast<uint64_t>(kLongUs * ticks_per_us());
  s.meter.stolen = &s.stolen;
  s.meter.activity = s.activity.get();
  if (!s.devices.empty() && !s.timeline) s.timeline = std::make_shared<HostTimeline>(ticks());
  if (s.timeline || tracing() || range_sink.load() || notes_waits()) s.meter.listener = &s;
  s.begin = std::chrono::steady_clock::now();
  s.begin_ticks = s.meter.closed = ticks();
  State::innermost = &s;
  active_meter = &s.meter;
  set_active_timeline(s.timeline.get());
  try {
    for (const Device device : s.devices)
      s.before.push_back(DeviceMeter::of(device).start(s.detail));
  } catch (...) {
    s.stop();
    throw;
  }
}

Accountant::~Accountant() {
  state_->stop();
  if (state_->thread == std::this_thread::get_id()) return;
  if (state_->timeline) state_->timeline->hide();
  const std::lock_guard lock(State::abandoned().mutex);
  State::abandoned().states.push_back(std::move(state_));
}

std::shared_ptr<const Activity> Accountant::activity() const { return state_->activity; }

Account Accountant::read() const {
  state_->check_thread();
  return state_->of_thread();
}

Account Accountant::read(Device device) const {
  state_->check_thread();
  if (device.is_cpu()) return read();
  const Shares charged = DeviceMeter::of(device).read();
  return state_->of_device(device, charged, /*until=*/0);
}

std::optional<AccountAccess::OfThread> AccountAccess::of_thread(Device device) {
  using State = Accountant::State;
  State::leave_abandoned();
  if (!device.is_cpu()) DeviceMeter::of(device).advance();
  for (const State* s = State::innermost; s; s = s->enclosing)
    if (device.is_cpu() || std::ranges::find(s->devices, device) != s->devices.end())
      return OfThread{s->number, s->so_far(device)};
  return {};
}

Account Accountant::read_so_far(Device device) const {
  state_->check_thread();
  return state_->so_far(device);
}

}  // namespace brim::diag
