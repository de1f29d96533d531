// The stream checker: vector clocks over streams, kept by the host while it queues work, so that a
// missing wait is found on every run and not only when the timing is bad (Lamport 1978; FastTrack,
// Flanagan and Freund 2009). Virtual accelerators have one (SimOptions::check), and CUDA devices
// another (BRIM_CUDA_CHECK).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/touches.h"

namespace brim::backend {

class StreamChecker {
 public:
  /// By stream: how much of that stream's work is surely done. A missing entry is 0.
  using Clock = std::vector<uint64_t>;

  /// Forgets everything; all streams are idle.
  void reset();
  /// Work is queued on `stream`. Throws StreamError when it touches what others still use.
  void work(int stream, const char* name, std::span<const Touch> touches);
  /// Memory is handed out on `stream`. Throws StreamError when another stream still uses it.
  void reuse(int stream, const void* address, size_t bytes);
  /// Memory goes back to the device, which has become idle.
  void forget(const void* address, size_t bytes);

  Clock record(int stream);                        ///< an event
  void wait(int stream, const Clock& event);       ///< the stream waits for it
  void wait_on_host(const Clock& event);           ///< the host has waited for it
  void name_stream(int stream, std::string name);  ///< "sim:0 stream 2", for messages

 private:
  struct Use {
    int stream = -1;
    uint64_t position = 0;
    const char* name = "";
  };
  struct History {
    size_t bytes = 0;
    Use write;
    std::vector<Use> reads;  // the last of each stream since the write
  };
  Clock& clock_of(int stream);
  bool done(const Use& use, const Clock& clock) const;
  const Use* conflict(const History& history, int stream, const Clock& clock, bool writes) const;

  std::mutex mutex_;
  std::vector<Clock> clocks_;     // what each stream may rely on
  std::vector<uint64_t> queued_;  // pieces of work so far
  Clock host_;                    // what the host may rely on
  std::vector<std::string> names_;
  std::map<const void*, History> histories_;
};

}  // namespace brim::backend
