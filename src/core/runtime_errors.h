// What a backend tells of work that failed after it was queued.
#pragma once

namespace brim {

class ErrorRuntime {
 public:
  virtual ~ErrorRuntime() = default;

  /// Throws the deferred errors of kernels of the device, where a backend has them and only who
  /// waits for a stream is told: for who waited for an event and reads what the work before it
  /// made.
  virtual void rethrow_deferred(int device) { (void)device; }
};

}  // namespace brim
