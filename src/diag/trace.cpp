// The recorder is one list behind a mutex: tracing is asked for, and then it may cost something.
#include <brim/diag/trace.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/check.h"
#include "diag/span.h"
#include "diag/trace_sink.h"

namespace brim::diag {
namespace {

constexpr int kHost = 0;  // process number in the file; devices follow

struct Event {
  const char* name;
  uint64_t begin, end;
  int32_t process, thread;
  Cause cause;
};

std::atomic<Trace::State*> active_trace{nullptr};
std::mutex recording_mutex;  // held while an event is added, and while a Trace comes or goes

int process_of(Device device) { return 1 + static_cast<int>(device.kind) * 1000 + device.index; }
Device device_of(int process) {
  return {static_cast<DeviceKind>((process - 1) / 1000), (process - 1) % 1000};
}

int this_thread() {
  static std::atomic<int> count{0};
  thread_local const int id = count++;
  return id;
}

void append_quoted(std::string& text, std::string_view word) {
  for (const char c : word) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
}

}  // namespace

struct Trace::State {
  size_t max_events;
  std::vector<Event> events;
  int64_t dropped = 0;
  uint64_t begin_ticks = ticks();
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();

  void add(const Event& event) {
    if (events.size() < max_events)
      events.push_back(event);
    else
      ++dropped;
  }
};

Trace::Trace(int64_t max_events) : state_(std::make_unique<State>()) {
  BRIM_CHECK(max_events > 0, ValueError, "[trace] {} events are too few; keep 1 or more",
             max_events);
  state_->max_events = static_cast<size_t>(max_events);
  const std::lock_guard lock(recording_mutex);
  Trace::State* none = nullptr;
  BRIM_CHECK(active_trace.compare_exchange_strong(none, state_.get()), ValueError,
             "[trace] a trace is being recorded already; end it first");
}

Trace::~Trace() {
  const std::lock_guard lock(recording_mutex);
  active_trace.store(nullptr);
}

int64_t Trace::events() const {
  const std::lock_guard lock(recording_mutex);
  return static_cast<int64_t>(state_->events.size());
}
int64_t Trace::dropped() const {
  const std::lock_guard lock(recording_mutex);
  return state_->dropped;
}

bool tracing() { return active_trace.load(std::memory_order_relaxed) != nullptr; }

static void add(const Event& event) {
  const std::lock_guard lock(recording_mutex);
  if (Trace::State* state = active_trace.load(std::memory_order_relaxed)) state->add(event);
}

void trace_host(const char* name, Cause cause, uint64_t begin, uint64_t end) {
  add({name, begin, end, kHost, this_thread(), cause});
}

void trace_device(Device device, int stream, const char* name, Cause cause, uint64_t begin,
                  uint64_t end) {
  add({name, begin, end, process_of(device), stream, cause});
}

double Trace::begin_seconds() const {
  return std::chrono::duration<double>(state_->begin.time_since_epoch()).count();
}

void Trace::write(const TraceSink& sink, const std::function<void(const TraceSink&)>& write_all,
                  int64_t dropped) {
  sink("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
  write_all(sink);
  sink(fmt::format("\n], \"otherData\": {{\"dropped_events\": {}}}}}\n", dropped));
}

void Trace::write(const TraceSink& sink) const {
  write(
      sink, [this](const TraceSink& events) { write_events(events); }, dropped());
}

void Trace::write_events(const TraceSink& sink, const TraceProcess& process) const {
  std::vector<Event> events;
  {
    const std::lock_guard lock(recording_mutex);  // not while the sink is called
    events = state_->events;
  }
  constexpr int kProcesses = 10000;  // numbers that the host and the devices of one have
  const State& s = *state_;
  const double passed_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - s.begin).count();
  const double us = passed_us / static_cast<double>(std::max<uint64_t>(1, ticks() - s.begin_ticks));
  std::string text;
  std::set<std::pair<int, int>> tracks;
  for (const Event& e : events) tracks.emplace(e.process, e.thread);
  const char* comma = "";
  int last = -1;
  for (const auto& [of, thread] : tracks) {
    const bool host = of == kHost;
    const int number = process.number * kProcesses + of;
    if (of != last) {
      text += comma;
      text += R"({"ph": "M", "name": "process_name", "args": {"name": ")";
      append_quoted(text, process.name);
      text += fmt::format(R"({}{}"}}, "pid": {}}})", process.name.empty() ? "" : ": ",
                          host ? "host" : device_of(of).str(), number);
      text += fmt::format(
          ",\n"
          R"({{"ph": "M", "name": "process_sort_index", "pid": {0}, "args": {{"sort_index": {0}}}}})",
          number);
    }
    last = of;
    comma = ",\n";
    text += fmt::format(
        R"({}{{"ph": "M", "name": "thread_name", "pid": {}, "tid": {}, "args": {{"name": "{} {}"}}}})",
        comma, number, thread, host ? "thread" : "stream", thread);
  }
  for (const Event& e : events) {
    text += comma;
    comma = ",\n";
    text += R"({"ph": "X", "name": ")";
    append_quoted(text, e.name);
    const double begin = static_cast<double>(static_cast<int64_t>(e.begin - s.begin_ticks)) * us;
    fmt::format_to(std::back_inserter(text),
                   R"(", "cat": "{}", "pid": {}, "tid": {}, "ts": {:.3f}, "dur": {:.3f}}})",
                   diag::name(e.cause), process.number * kProcesses + e.process, e.thread,
                   begin + process.later_us, static_cast<double>(e.end - e.begin) * us);
    if (text.size() > (1 << 16)) {
      sink(text);
      text.clear();
    }
  }
  if (!text.empty()) sink(text);
}

}  // namespace brim::diag
