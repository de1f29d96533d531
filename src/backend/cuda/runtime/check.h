// Errors of CUDA calls as brim's exceptions.
#pragma once

#include <cuda_runtime.h>

namespace brim::cuda {

/// Throws DeviceError with the call and what CUDA says.
[[noreturn]] void failed(cudaError_t result, const char* call);

/// Throws DeviceError naming the call unless `result` is cudaSuccess.
inline void check(cudaError_t result, const char* call) {
  if (result != cudaSuccess) [[unlikely]]
    failed(result, call);
}

}  // namespace brim::cuda

/// Runs a call of CUDA's runtime and throws DeviceError with its text if it fails.
#define BRIM_CUDA(call) ::brim::cuda::check((call), #call)
