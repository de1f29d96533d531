// A trace: every span of measured threads and every piece of work of measured devices, in the Trace
// Event Format that Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace brim::diag {

/// Where a process stands in the trace of several.
struct TraceProcess {
  int number = 0;         ///< which process of the trace, from 0
  std::string name = {};  ///< goes before those of its host and devices: "rank 1"
  double later_us = 0;    ///< its recording began so much after the trace's time 0
};

/// Takes the pieces of a text, one after the other.
using TraceSink = std::function<void(std::string_view)>;

/// Records while it lives, from all Accountants that are made meanwhile. One at a time; a second
/// one throws ValueError.
class Trace {
 public:
  /// Keeps the first `most` events and counts the rest.
  explicit Trace(int64_t max_events = 1'000'000);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  int64_t events() const;   ///< written so far
  int64_t dropped() const;  ///< left out for want of memory
  /// Seconds of std::chrono::steady_clock when it began: time 0 of its events.
  double begin_seconds() const;
  /// Writes JSON (Trace Event Format, Google 2016) piece by piece.
  void write(const TraceSink& sink) const;
  /// The same for the traces of several processes, of which `write_all` passes the events to its
  /// sink, with ",\n" between those of two (see dist::write_trace).
  static void write(const TraceSink& sink, const std::function<void(const TraceSink&)>& write_all,
                    int64_t dropped);
  /// The events alone.
  void write_events(const TraceSink& sink, const TraceProcess& process = {}) const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace brim::diag
