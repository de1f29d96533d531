// What kernels and libraries need of the CUDA runtime's state.
#pragma once

#include <string>

#include <cuda_runtime.h>

#include "backend/cuda/runtime/check.h"
#include "core/context.h"

namespace brim::cuda {

/// Makes `device` CUDA's current one in this thread again, if this process uses it: else
/// cudaSetDevice would make a context there, some hundred MiB on a GPU that nobody asked for.
void go_back(int device) noexcept;

/// Makes a device CUDA's current one in this thread, until the guard's end.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    BRIM_CUDA(cudaGetDevice(&before_));
    if (before_ != device) BRIM_CUDA(cudaSetDevice(device));
    changed_ = before_ != device;
  }
  ~DeviceGuard() {
    if (changed_) go_back(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// CUDA's handle of a stream; in a thread that captures what is queued on it, of what stands for it
/// (capture.h).
cudaStream_t native(Stream stream);

/// The same for a kernel of brim's, and whether that one may begin while the one before it in the
/// stream ends: where launches_dependently(), and nobody asked for native() since the last of these
/// calls. What others launch need not wait for what stands before it, and then whoever waits for
/// that alone is too early.
struct KernelStream {
  cudaStream_t handle;
  bool follows_kernel;
};
KernelStream native_for_kernel(Stream stream);

/// Whether the stream's work goes into a graph. Then nothing may be measured, nor a library begun.
bool is_captured(Stream stream);

/// How many multiprocessors the device has; asked of CUDA once.
int multiprocessors(int device);
/// 90 for 9.0.
int compute_capability(int device);
/// "GPU-", and what no other GPU or MIG instance has, as NVML writes it for a whole card. By CUDA,
/// which numbers devices as this process does. "" where the device is not there.
std::string uuid_of(int device);

/// Whether kernels are launched so that each begins while the one before it in its stream ends:
/// where BRIM_CUDA_DEPENDENT_LAUNCH is 1, on devices of compute capability 9.0 or more, by code
/// compiled for such.
bool launches_dependently(int device);
/// Whether the current device runs code that waits in begin_kernel() (device/launch.cu).
bool kernels_wait();

/// Gives cached memory of the stream's device back to CUDA; false if there was none, or giving it
/// back would end a capture.
bool made_room(Stream stream);

/// Runs a CUDA call on `stream` that may need memory beside tensors (loading a kernel, uploading a
/// graph), again if the allocator's cache was what took it. Returns what the last call returned.
template <class F>
cudaError_t with_room(Stream stream, const F& call) {
  cudaError_t result = call();
  while (result == cudaErrorMemoryAllocation && made_room(stream)) result = call();
  return result;
}

/// Notes that the op this thread runs was queued on the device: should its work fail, which shows
/// at a later synchronisation, the error names the ops queued last.
void note_queued(int device);

}  // namespace brim::cuda
