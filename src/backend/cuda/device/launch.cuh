// Launching kernels. A kernel is a __global__ function of values and pointers; the same source is
// compiled for the CPU (emulation/), which is why nothing else launches any.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "backend/cuda/runtime/check.h"
#include "backend/cuda/runtime/runtime.h"

namespace brim::cuda {

struct Grid {
  dim3 blocks, threads;
  size_t shared_bytes = 0;  ///< of dynamic shared memory
};

constexpr int kThreads = 256;          // of a block, where nothing asks for another number
constexpr int64_t kMaxBlocks = 65535;  // kernels loop over what is left

/// Blocks of kThreads, one thread for each of `count` elements as far as the grid goes; kernels
/// step through the rest: for (i = first_index(); i < count; i += grid_size()).
inline Grid grid_for(int64_t count) {
  const int64_t blocks = std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
}

/// For kernels whose blocks take `per_block` of `count` elements at a time and step through the
/// rest: as many blocks as the card holds eight times over, so that the last ones to work are few.
inline Grid card_grid(const Context& context, int64_t count, int64_t per_block) {
  const int64_t max_blocks = 64 * int64_t{multiprocessors(context.device().index)};
  const int64_t blocks = std::clamp<int64_t>((count + per_block - 1) / per_block, 1, max_blocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(kThreads)};
}

/// The first statement of every kernel. Where launches are dependent (launches_dependently), its
/// blocks come onto the device while the kernel queued before it still works: this lets the next
/// kernel come as early, and waits until all that was queued before is done and seen. So nothing of
/// a tensor may be read or written above it. Elsewhere it does nothing. CUDA C++ Programming Guide,
/// "Programmatic Dependent Launch and Synchronization".
__device__ inline void begin_kernel() {
#if !defined(__CUDACC__)
  emulation::begin_kernel();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

__device__ inline int64_t first_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t grid_size() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

/// Queues a kernel whose threads do not talk to each other: no barrier, no shuffle.
/// launch_blocks: one whose threads of a block do. Throw DeviceError if the launch is refused.
#if defined(__CUDACC__)
template <class... Params, class... Args>
void launch_blocks(const Context& context, void (*kernel)(Params...), const Grid& grid,
                   const Args&... args) {
  const DeviceGuard guard(context.device().index);
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  const KernelStream stream = native_for_kernel(context.stream);
  config.stream = stream.handle;
  config.attrs = &dependent;
  config.numAttrs = stream.follows_kernel ? 1 : 0;
  const cudaError_t result =
      with_room(context.stream, [&] { return cudaLaunchKernelEx(&config, kernel, args...); });
  check(result, "a kernel's launch");
  note_queued(context.device().index);
}
template <class... Params, class... Args>
void launch(const Context& context, void (*kernel)(Params...), const Grid& grid,
            const Args&... args) {
  launch_blocks(context, kernel, grid, args...);
}
#else
template <class... Params, class Run>
void queue_emulated(const Context& context, void (*kernel)(Params...), const Grid& grid, Run run) {
  const cudaError_t result = with_room(context.stream, [&] {
    return emulation::check_launch(reinterpret_cast<const void*>(kernel), grid.blocks, grid.threads,
                                   grid.shared_bytes);
  });
  check(result, "a kernel's launch");
  emulation::submit(native(context.stream),
                    [=] { emulation::expect_begun(grid.blocks, grid.threads, run); });
  note_queued(context.device().index);
}
template <class... Params, class... Args>
void launch_blocks(const Context& context, void (*kernel)(Params...), const Grid& grid,
                   const Args&... args) {
  queue_emulated(context, kernel, grid, [=] {
    emulation::run_blocks(grid.blocks, grid.threads, grid.shared_bytes, [=] { kernel(args...); });
  });
}
template <class... Params, class... Args>
void launch(const Context& context, void (*kernel)(Params...), const Grid& grid,
            const Args&... args) {
  queue_emulated(context, kernel, grid, [=] {
    emulation::run_threads(grid.blocks, grid.threads, [=] { kernel(args...); });
  });
}
#endif

/// The dynamic shared memory of the block, as T.
template <class T>
__device__ T* shared_memory() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char brim_shared[];
  return reinterpret_cast<T*>(brim_shared);
#else
  return reinterpret_cast<T*>(emulation::shared_memory());
#endif
}

}  // namespace brim::cuda
