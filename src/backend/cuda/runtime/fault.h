// Bad values that only kernels see: an index out of range, a probability of 2. A kernel may not
// stop the program, so it keeps the first of them in memory that the host reads at the next
// synchronisation, and goes on without touching memory it must not.
#pragma once

#include <cstdint>

namespace brim::cuda {

enum class FaultKind : int { none, index, id, probability, label };

/// What was wrong. `text` points to the host's memory: kernels only pass it on.
struct Fault {
  int taken = 0;
  FaultKind kind = FaultKind::none;
  const char* text = nullptr;  ///< index and label: the op
  int64_t axis = 0;            ///< index; label: the one that is ignored
  int64_t value = 0;           ///< index, id and label
  int64_t position = 0;        ///< id, probability and label
  int64_t size = 0;            ///< index, id and label: they must be below
  double number = 0;           ///< probability
};

/// Where kernels on `device` report a fault: pinned memory that the device sees.
Fault* fault_of(int device);
/// Throws IndexError or ValueError if a kernel has reported one since it was last asked. The device
/// has been waited for.
void rethrow_fault(int device);

}  // namespace brim::cuda
