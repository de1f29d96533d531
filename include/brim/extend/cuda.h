// CUDA kernels of custom ops: .cu files of a plugin, which brim_add_plugin() compiles. A kernel is
// a __global__ function; what is registered for DeviceKind::cuda is a function that launches it:
//
//   void run(const Context& context, const Tensor& x, Tensor& y) {
//     cuda::launch(context, &kernel, cuda::grid_for(y.numel()), y.numel(), ...);
//   }
//   const bool registered = register_kernel("name", DeviceKind::cuda, f32, &run);
//
// A plugin has a CUDA runtime of its own, linked statically; it works in the same contexts and on
// the same streams as brim's backend. Nothing may wait for the device here, nor allocate: steps are
// captured as graphs. Take scratch memory as a tensor that the op makes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <brim/extend/cuda_walk.h>
#include <brim/extend/kernel.h>
#include <brim/extend/native.h>

namespace brim::extend::cuda {

/// For calls of CUDA's libraries, inside queue_native().
inline cudaStream_t stream(const Context& context) {
  return static_cast<cudaStream_t>(native_stream(context));
}

/// How many threads a kernel is launched with.
struct Grid {
  dim3 blocks, threads;     ///< of the grid, and threads of each block
  size_t shared_bytes = 0;  ///< of dynamic shared memory
};

/// Blocks of 256 threads, one thread for each of `count` elements as far as the grid goes; kernels
/// step through the rest: `for (i = first_index(); i < count; i += grid_size())`.
inline Grid grid_for(int64_t count) {
  constexpr int64_t kThreads = 256, kMaxBlocks = 65535;
  const int64_t blocks = std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks);
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(kThreads))};
}

/// Queues a kernel on the context's stream. Throws DeviceError if the launch is refused.
template <class... Params, class... Args>
void launch(const Context& context, void (*kernel)(Params...), const Grid& grid,
            const Args&... args) {
  queue_repeatable(context, [&]() -> int {
#if defined(__CUDACC__)
    kernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream(context)>>>(args...);
    return cudaGetLastError();
#else  // brim's tests: over an emulation, on the CPU
    return brim::cuda::emulation::launch(stream(context), kernel, grid.blocks, grid.threads,
                                         grid.shared_bytes, args...);
#endif
  });
}

}  // namespace brim::extend::cuda
