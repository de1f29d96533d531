// Records of what a CUDA device did, from events behind what was queued. An event's time is a time
// of the device; a base event, recorded while the device is idle, relates it to the host's clock.
// Copies and graphs have an event before them, too. Kernels have not, which halves the cost: one
// begins when it was queued or when the work before it on its stream ended, whichever is later.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include <brim/core/stream.h>

#include <cuda_runtime.h>
#include "diag/record_replay.h"

namespace brim::cuda {

class EventRecords {
 public:
  explicit EventRecords(int device) : device_(device) {}

  /// The device is idle.
  void start();
  /// Frees all events. The device is idle.
  void stop();
  /// What follows on `stream` is of `cause`, until ended().
  void begun(Stream stream, diag::Cause cause, const char* name);
  /// What was queued on `stream` since begun(), or by one op, ends here. `queued`: when that was.
  void ended(Stream stream, const char* name, uint64_t queued);
  /// What is queued on `stream` from now on begins no earlier than what it waits for.
  void waits(Stream stream);
  /// The device is idle. Adds records and notes of all work, and returns how many pieces of work
  /// since the last call have none. Does not throw.
  int64_t collect(diag::RecordReplay& replay);

 private:
  /// A point in a stream's order, and the work that ends there, if any.
  struct Point {
    cudaEvent_t event = nullptr;
    bool work = false;
    uint64_t queued = 0;
    int thread = 0, stream = 0;
    diag::Cause cause = diag::Cause::compute;
    const char* name = "";
  };
  struct Open {
    diag::Cause cause;
    const char* name;
    uint64_t queued;
  };
  cudaEvent_t take_event();
  void set_base();
  void add(Stream stream, Point point);
  /// Adds what the points say to `replay`; those whose times CUDA does not tell are lost.
  void tell(diag::RecordReplay& replay, uint64_t now);

  int device_;
  std::mutex mutex_;
  std::deque<Point> points_;
  std::map<int, Open> open_;            // by stream
  std::map<int, uint64_t> last_ended_;  // by stream
  std::vector<cudaEvent_t> free_;
  cudaEvent_t base_ = nullptr;
  uint64_t base_ticks_ = 0;
  uint64_t next_ = 1;  // correlation
  int64_t lost_ = 0;
};

}  // namespace brim::cuda
