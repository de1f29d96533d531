// What a library of NVIDIA's reports in its own words may be the end of the device.
#pragma once

namespace brim::cuda {

/// Throws DeviceError if no call on this thread's device succeeds any more: a kernel went wrong, or
/// the GPU is gone. Else nothing. `call` is the one that failed.
void raise_if_lost(const char* call);

}  // namespace brim::cuda
