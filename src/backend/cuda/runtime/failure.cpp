#include "backend/cuda/runtime/failure.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>

#include "backend/cuda/observe/measure.h"
#include "backend/cuda/runtime/runtime.h"
#include "backend/cuda/runtime/streams.h"
#include "backend/queued_op.h"
#include "core/check.h"

namespace brim::cuda {
namespace {

/// The names of the ops queued last on each device.
class Queued {
 public:
  void add(int device, const char* op) {
    Ring& ring = rings_[static_cast<size_t>(device) % kDevices];
    ring.ops[ring.next.fetch_add(1, std::memory_order_relaxed) % kKept].store(
        op, std::memory_order_relaxed);
  }
  /// "add, conv2d", the newest last.
  std::string text(int device) const {
    const Ring& ring = rings_[static_cast<size_t>(device) % kDevices];
    std::string result;
    const size_t next = ring.next.load(std::memory_order_relaxed);
    for (size_t i = next < kKept ? 0 : next - kKept; i < next; ++i)
      if (const char* op = ring.ops[i % kKept].load(std::memory_order_relaxed))
        result += (result.empty() ? "" : ", ") + std::string(op);
    return result;
  }

 private:
  static constexpr size_t kDevices = 64, kKept = 8;
  struct Ring {
    std::array<std::atomic<const char*>, kKept> ops{};
    std::atomic<size_t> next{0};
  };
  std::array<Ring, kDevices> rings_;
};

Queued& queued() {
  static auto* all = new Queued;
  return *all;
}

/// Whether no call on the device succeeds any more in this process: a kernel went wrong, or the GPU
/// is gone.
bool ends_all(cudaError_t error) {
  // cudaErrorDevicesUnavailable, ECCUncorrectable, NvlinkUncorrectable, Contained, IllegalAddress,
  // LaunchTimeout, Assert, HardwareStackError to InvalidPc, LaunchFailure, TensorMemoryLeak,
  // MpsConnectionFailed, MpsRpcFailure, MpsServerNotReady, MpsClientTerminated, ExternalDevice,
  // Unknown.
  constexpr int kErrors[] = {46,  214, 220, 226, 700, 702, 710, 714, 715, 716,
                             717, 718, 719, 721, 805, 806, 807, 810, 911, 999};
  return std::find(std::begin(kErrors), std::end(kErrors), static_cast<int>(error)) !=
         std::end(kErrors);
}

}  // namespace

void work_failed(cudaError_t result, int device) {
  raise<DeviceError>(
      "[cuda] work queued on cuda:{} failed: {} ({}); queued last: {}; start again: dmesg shows an "
      "Xid if the GPU was lost, else CUDA_LAUNCH_BLOCKING=1 shows which op it was",
      device, cudaGetErrorString(result), cudaGetErrorName(result), queued().text(device));
}

void wait_failed(cudaError_t result, int device) {
  constexpr int kCaptureUnsupported = 900, kLastOfCapture = 907;
  if (result < kCaptureUnsupported || result > kLastOfCapture) work_failed(result, device);
  (void)cudaGetLastError();
  raise<DeviceError>(
      "[{}] waits for cuda:{} while a step is captured as a graph, where nothing may wait: leave "
      "reads of values on the host out of compiled steps",
      backend::queued_op ? backend::queued_op : "cuda", device);
}

void failed(cudaError_t result, const char* call) {
  (void)cudaGetLastError();  // so that the next call does not report it again
  int device = 0;
  (void)cudaGetDevice(&device);
  if (ends_all(result)) work_failed(result, device);
  const char* const op = backend::queued_op ? backend::queued_op : "cuda";
  constexpr int kInvalidDeviceFunction = 98, kNoKernelImageForDevice = 209;
  if (result == cudaErrorMemoryAllocation) {
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    throw OutOfMemory(
        fmt::format("[{}] CUDA found no room on cuda:{} for what {} needs beside tensors: {} bytes "
                    "are free; use a smaller batch or a lower Allocator::set_limit",
                    op, device, call, free),
        0, static_cast<int64_t>(free), 0);
  }
  if (result == kInvalidDeviceFunction || result == kNoKernelImageForDevice) {
    cudaDeviceProp p{};
    (void)cudaGetDeviceProperties(&p, device);
    const int capability = 10 * p.major + p.minor;
    raise<DeviceError>(
        "[{}] this build of brim has no kernels for cuda:{}, of compute capability {}.{} ({}); {}",
        op, device, p.major, p.minor, cudaGetErrorName(result),
        capability < 75
            ? "brim needs 7.5 or more, as CUDA 13 does: use another GPU"
            : fmt::format("build it with -DBRIM_CUDA_ARCHITECTURES={}, or use another GPU",
                          capability));
  }
  raise<DeviceError>("[{}] {} failed: {} ({})", op, call, cudaGetErrorString(result),
                     cudaGetErrorName(result));
}

void raise_if_lost(const char* call) {
  int device = 0;
  if (const cudaError_t result = cudaGetDevice(&device); ends_all(result)) failed(result, call);
  const cudaError_t result = cudaStreamQuery(Streams::all().of(device).front());
  if (ends_all(result)) failed(result, call);
  (void)cudaGetLastError();
}

void note_queued(int device) {
  if (const char* op = backend::queued_op) queued().add(device, op);
  launch_queued(device, backend::queued_op);
}

}  // namespace brim::cuda
