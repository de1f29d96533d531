// What CUDA and NVIDIA's libraries report of work that failed, as brim's errors. They name the ops
// that were queued last, as what went wrong shows later.
#pragma once

#include <cuda_runtime.h>

namespace brim::cuda {

/// Throws DeviceError: work that was queued on the device before has failed.
[[noreturn]] void work_failed(cudaError_t result, int device);

/// The same of a wait; or it says that nobody may wait while a step is captured.
[[noreturn]] void wait_failed(cudaError_t result, int device);

/// What a library of NVIDIA's reports in its own words may be the end of the device: throws
/// DeviceError if no call on this thread's device succeeds any more, as a kernel went wrong or the
/// GPU is gone. Else nothing. `call` is the one that failed.
void raise_if_lost(const char* call);

}  // namespace brim::cuda
