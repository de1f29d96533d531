// A trace: every span of measured threads and every piece of work of measured devices, in the Trace
// Event Format that Perfetto (ui.perfetto.dev) and chrome://tracing open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace brim::diag {

/// Records while it lives, from all Accountants that are made meanwhile. One at a time; a second
/// one throws ValueError.
class Trace {
 public:
  /// Keeps the first `most` events and counts the rest.
  explicit Trace(int64_t max_events = 1'000'000);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  int64_t events() const;
  int64_t dropped() const;
  /// Writes JSON (Trace Event Format, Google 2016) piece by piece.
  void write(const std::function<void(std::string_view)>& sink) const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace brim::diag
