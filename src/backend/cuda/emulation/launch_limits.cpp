// The sizes of a launch that GPUs refuse. CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability". With BRIM_EMULATED_REFUSAL every launch is refused with that error; with
// BRIM_EMULATED_LAUNCH_BYTES, if the device has fewer bytes free, as CUDA has to load a kernel.
// BRIM_EMULATED_SHARED_BYTES: what a block gets when it asks, as 65536 on compute capability 7.5.
// BRIM_EMULATED_SHARED_LOG: a file that gets a line for each kernel when the process ends: where it
// lies in the library, and the most bytes of dynamic shared memory that a launch gave it
// (tools/kernel_table.py).
#include <dlfcn.h>
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include <cuda_runtime.h>

#include "core/open_to_write.h"

namespace {

using brim::open_stream;
using brim::OwnedStream;

constexpr size_t kSharedBytes = size_t{48} << 10;  // without asking
constexpr unsigned kMaxThreads = 1024, kMaxThreadsZ = 64;
constexpr unsigned kMaxBlocksX = 0x7fffffff, kMaxBlocks = 65535;

/// What a block may ask for, of compute capability 9.0 unless said otherwise.
size_t max_shared_bytes() {
  const char* bytes = std::getenv("BRIM_EMULATED_SHARED_BYTES");
  return bytes ? std::strtoull(bytes, nullptr, 10) : size_t{227} << 10;
}

/// Dynamic shared memory that kernels have asked for.
struct SharedLimits {
  std::mutex mutex;
  std::map<const void*, size_t> of;
};
SharedLimits& shared_limits() {
  static auto* all = new SharedLimits;
  return *all;
}

/// The most that each kernel was launched with.
class SharedLog {
 public:
  explicit SharedLog(const char* path) : path_(path) {}
  SharedLog(const SharedLog&) = delete;
  SharedLog& operator=(const SharedLog&) = delete;
  ~SharedLog() {
    const OwnedStream file = open_stream(path_, O_WRONLY | O_APPEND);
    if (!file) return;
    for (const auto& [kernel, bytes] : max_)
      if (Dl_info library; dladdr(kernel, &library))
        std::fprintf(file.get(), "%zx %zu\n",
                     static_cast<size_t>(static_cast<const char*>(kernel) -
                                         static_cast<const char*>(library.dli_fbase)),
                     bytes);
  }
  void add(const void* kernel, size_t bytes) {
    const std::lock_guard lock(mutex_);
    size_t& max = max_[kernel];
    if (bytes > max) max = bytes;
  }

 private:
  const char* path_;
  std::mutex mutex_;
  std::map<const void*, size_t> max_;
};
void log_shared_bytes(const void* kernel, size_t bytes) {
  static const char* const path = std::getenv("BRIM_EMULATED_SHARED_LOG");
  if (!path) return;
  static SharedLog log(path);
  log.add(kernel, bytes);
}

bool within(dim3 n, dim3 max) {
  return n.x > 0 && n.y > 0 && n.z > 0 && n.x <= max.x && n.y <= max.y && n.z <= max.z;
}

}  // namespace

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<size_t>(value) > max_shared_bytes())
    return cudaErrorInvalidValue;
  const std::lock_guard lock(shared_limits().mutex);
  shared_limits().of[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || device < 0 || device >= count)
    return cudaErrorInvalidDevice;
  if (attribute != cudaDevAttrMaxSharedMemoryPerBlockOptin) return cudaErrorInvalidValue;
  *value = static_cast<int>(max_shared_bytes());
  return cudaSuccess;
}

cudaError_t brim::cuda::emulation::check_launch(const void* kernel, dim3 blocks, dim3 threads,
                                                size_t shared_bytes) {
  if (const char* error = std::getenv("BRIM_EMULATED_REFUSAL"))
    return static_cast<cudaError_t>(std::atoi(error));
  if (const char* bytes = std::getenv("BRIM_EMULATED_LAUNCH_BYTES")) {
    size_t free = 0, total = 0;
    (void)cudaMemGetInfo(&free, &total);
    if (free < std::strtoull(bytes, nullptr, 10)) return cudaErrorMemoryAllocation;
  }
  if (!within(blocks, {kMaxBlocksX, kMaxBlocks, kMaxBlocks}) ||
      !within(threads, {kMaxThreads, kMaxThreads, kMaxThreadsZ}) ||
      size_t{threads.x} * threads.y * threads.z > kMaxThreads)
    return cudaErrorInvalidConfiguration;
  log_shared_bytes(kernel, shared_bytes);
  if (shared_bytes <= kSharedBytes) return cudaSuccess;
  const std::lock_guard lock(shared_limits().mutex);
  const auto found = shared_limits().of.find(kernel);
  return found != shared_limits().of.end() && shared_bytes <= found->second ? cudaSuccess
                                                                            : cudaErrorInvalidValue;
}
