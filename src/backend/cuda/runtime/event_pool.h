// CUDA events that order streams. brim makes one for every tensor that crosses streams and drops it
// soon, so events are kept for the next one instead of being destroyed.
#pragma once

#include <cuda_runtime.h>

#include "backend/stream_checker.h"

namespace brim::cuda {

/// An event of a device, from the device's pool; goes back there at its end. It may
/// go while work waits for it: CUDA has noted then what that work waits for, and recording the
/// event anew does not change it. For any thread.
class PooledEvent {
 public:
  /// `timed`: for cudaEventElapsedTime. Throws DeviceError where CUDA has none.
  PooledEvent(int device, bool timed);
  ~PooledEvent();
  PooledEvent(const PooledEvent&) = delete;
  PooledEvent& operator=(const PooledEvent&) = delete;

  int device() const { return device_; }
  cudaEvent_t get() const { return event_; }

  backend::StreamChecker::Clock clock;  ///< for the stream checker

 private:
  int device_;
  bool timed_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace brim::cuda
