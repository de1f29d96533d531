// Copies from global to shared memory that need no registers and do not wait for each other: all of
// a tile's loads are under way at once.
#pragma once

#include <cuda_runtime.h>

#if defined(__CUDACC__)
#include <cuda_pipeline_primitives.h>
#else
#include <cstdint>
#include <cstring>
#include <stdexcept>
#endif

namespace brim::cuda {

/// Starts copying kBytes (4, 8 or 16; both sides so aligned).
template <int kBytes>
__device__ inline void copy_async(void* shared, const void* global) {
#if defined(__CUDACC__)
  __pipeline_memcpy_async(shared, global, kBytes);
#else
  if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % kBytes != 0)
    throw std::logic_error("[cuda emulation] copy_async between addresses that are not aligned");
  std::memcpy(shared, global, kBytes);
#endif
}

/// Waits for this thread's copies; those of others are there after a barrier.
__device__ inline void wait_for_copies() {
#if defined(__CUDACC__)
  __pipeline_commit();
  __pipeline_wait_prior(0);
#endif
}

}  // namespace brim::cuda
