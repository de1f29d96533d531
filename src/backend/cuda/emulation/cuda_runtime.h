// The part of CUDA's language and runtime that brim's kernels and runtime use, on the CPU: for
// tests on machines without a GPU. "Devices" are host memory, streams run their work at once, the
// threads of a block are fibers that switch at barriers and shuffles (emulation.cpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include <cuda_runtime_api.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static  // one block at a time runs in the whole process

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};

namespace brim::cuda::emulation {

constexpr int kWarp = 32;

/// Where the running thread stands.
struct Position {
  uint3 thread, block;
  dim3 threads, blocks;
};
extern thread_local constinit Position position [[gnu::tls_model("initial-exec")]];

/// Does `work` now, or, while `stream` is captured, when the graph is launched.
void submit(cudaStream_t stream, std::function<void()> work);
/// What a GPU of compute capability 9.0 says of such a launch.
cudaError_t check_launch(const void* kernel, dim3 blocks, dim3 threads, size_t shared_bytes);
bool is_captured(cudaStream_t stream);
bool is_capturing();  ///< whether this thread captures a stream
/// Lets time pass on the stream, as events see it.
void spend(cudaStream_t stream, double milliseconds);
/// All of these bytes are memory of a device.
bool is_memory(const void* data, size_t bytes);
/// Runs `body` once for each thread, one after the other. A barrier in it throws.
void run_threads(dim3 blocks, dim3 threads, const std::function<void()>& body);
/// Runs `body` once for each thread; those of a block take turns at barriers. Throws
/// std::logic_error where threads wait for others that never come.
void run_blocks(dim3 blocks, dim3 threads, size_t shared_bytes, const std::function<void()>& body);

/// What the begin of brim's kernels comes to; expect_begun: `run` runs one of them, each of whose
/// threads calls it once, or std::logic_error is thrown.
void begin_kernel();
void expect_begun(dim3 blocks, dim3 threads, const std::function<void()>& run);

/// As kernel<<<blocks, threads, shared_bytes, stream>>>(args...).
template <class... Params, class... Args>
cudaError_t launch(cudaStream_t stream, void (*kernel)(Params...), dim3 blocks, dim3 threads,
                   size_t shared_bytes, const Args&... args) {
  const cudaError_t result =
      check_launch(reinterpret_cast<const void*>(kernel), blocks, threads, shared_bytes);
  if (result == cudaSuccess)
    submit(stream, [=] { run_blocks(blocks, threads, shared_bytes, [=] { kernel(args...); }); });
  return result;
}

void* shared_memory();  ///< dynamic, of the running block
void block_barrier();
void warp_barrier();
int lane();
int warp_size();  ///< threads in the running thread's warp
/// Waits for the running thread's warp, each of whose threads brings `bytes` <= 16 of its own;
/// returns the warp's 32 slots of 16 bytes, which hold until the running thread's next call but
/// one. Throws std::logic_error where the thread of a lane in `mask` has ended: what a GPU reads
/// there is undefined.
const unsigned char* gather_warp(unsigned mask, const void* value, size_t bytes);

template <class T>
T exchange(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= 16);
  const unsigned char* const slots = gather_warp(mask, &value, sizeof(T));
  if (from >= 0 && from < warp_size()) std::memcpy(&value, slots + 16 * from, sizeof(T));
  return value;
}

}  // namespace brim::cuda::emulation

#define threadIdx (::brim::cuda::emulation::position.thread)
#define blockIdx (::brim::cuda::emulation::position.block)
#define blockDim (::brim::cuda::emulation::position.threads)
#define gridDim (::brim::cuda::emulation::position.blocks)

constexpr int warpSize = ::brim::cuda::emulation::kWarp;

inline void __syncthreads() { ::brim::cuda::emulation::block_barrier(); }
inline void __syncwarp(unsigned = 0xffffffffu) { ::brim::cuda::emulation::warp_barrier(); }

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int = 32) {
  return ::brim::cuda::emulation::exchange(mask, value, from);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int = 32) {
  return ::brim::cuda::emulation::exchange(
      mask, value, ::brim::cuda::emulation::lane() + static_cast<int>(delta));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int = 32) {
  return ::brim::cuda::emulation::exchange(
      mask, value, ::brim::cuda::emulation::lane() - static_cast<int>(delta));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int = 32) {
  return ::brim::cuda::emulation::exchange(mask, value, ::brim::cuda::emulation::lane() ^ bits);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
  const unsigned char* const votes = ::brim::cuda::emulation::gather_warp(mask, &vote, 1);
  unsigned result = 0;
  for (int i = 0; i < ::brim::cuda::emulation::warp_size(); ++i)
    result |= static_cast<unsigned>(votes[16 * i]) << i;
  return result;
}
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }

// Fibers switch at barriers only, so plain code is atomic.
template <class T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at = static_cast<T>(before + value);
  return before;
}
template <class T>
T atomicMax(T* at, T value) {
  const T before = *at;
  *at = std::max(before, value);
  return before;
}
template <class T>
T atomicMin(T* at, T value) {
  const T before = *at;
  *at = std::min(before, value);
  return before;
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
  const T before = *at;
  if (before == expected) *at = value;
  return before;
}
inline void __threadfence() {}
inline void __threadfence_system() {}

// Arithmetic that is rounded after each step: nothing contracts it to a fused multiply-add.
inline double __dmul_rn(double a, double b) {
  volatile double product = a * b;
  return product;
}
inline double __dadd_rn(double a, double b) { return a + b; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
