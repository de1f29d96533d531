// Devices that are host memory and streams that work at once.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include "backend/cuda/emulation/watcher.h"

namespace {

constexpr int kDevices = 2;
constexpr size_t kAlignment = 256;

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

size_t capacity() {
  const char* limit = std::getenv("BRIM_EMULATED_MEMORY");
  return limit ? std::strtoull(limit, nullptr, 10) : size_t{4} << 30;
}

/// The bytes of each allocation, so that a device's capacity can be exhausted.
struct Memory {
  std::mutex mutex;
  std::map<void*, size_t> blocks;
  size_t used = 0;
};
Memory& memory() {
  static auto* all = new Memory;
  return *all;
}

}  // namespace

struct CUevent_st {
  std::chrono::steady_clock::time_point at;
  double spent = 0;  // milliseconds
};

struct EmulatedGraph {
  std::vector<std::function<void()>> work;
  double spent = 0;  // milliseconds of a launch
  int owners = 1;
};

namespace {

std::atomic<EmulationWatcher> watcher{nullptr};
/// Whether the first device reaches the memory of the second.
std::atomic<bool> can_access[kDevices][kDevices];

/// Where fakes of libraries say how long their work takes, that is the time that events see.
std::atomic<bool> time_is_spent{false};
/// What this thread captures; null: nothing.
thread_local EmulatedGraph* captured = nullptr;
/// Milliseconds, of the thread's streams or of what it captures.
double& spent() {
  static thread_local double all = 0;
  return captured ? captured->spent : all;
}
thread_local bool capture_failed = false;

std::atomic<int64_t> queued{0};  // pieces of work

/// Whether the GPU is gone: after BRIM_EMULATED_LOST pieces of work. As on a real one, every call
/// then fails with the same error.
bool is_lost() {
  const char* after = std::getenv("BRIM_EMULATED_LOST");
  return after && queued.load() >= std::atoll(after);
}

/// What would change the device's memory map ends a capture.
bool refused_in_capture() {
  if (!captured) return false;
  capture_failed = true;
  return true;
}

void release(EmulatedGraph* graph) {
  if (--graph->owners == 0) delete graph;
}

/// submit() for work of any kind (see EmulationWatcher).
void submit_as(const char* kind, std::function<void()> work) {
  constexpr double kLaunch = 50;  // milliseconds: long, so that measuring repeats little
  if (time_is_spent) spent() += kLaunch;
  if (const EmulationWatcher watch = watcher.load()) {
    if (!captured) watch(kind, current_device, 0);
    work = [watch, kind, device = current_device, unwatched = std::move(work)] {
      watch(kind, device, 1);
      unwatched();
      watch(kind, device, 2);
    };
  }
  if (captured) {
    captured->work.push_back(std::move(work));
  } else if (!is_lost()) {
    ++queued;
    work();
  }
}
}  // namespace

namespace brim::cuda::emulation {

void submit(std::function<void()> work) { submit_as("kernel", std::move(work)); }
bool is_captured() { return captured; }
void spend(double milliseconds) {
  time_is_spent = true;
  spent() += milliseconds;
}
bool is_memory(const void* data, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  auto at = memory().blocks.upper_bound(const_cast<void*>(data));
  if (at == memory().blocks.begin()) return false;
  --at;
  const auto* const begin = static_cast<const char*>(at->first);
  return static_cast<const char*>(data) + bytes <= begin + at->second;
}

}  // namespace brim::cuda::emulation

extern "C" void brim_emulation_watch(EmulationWatcher wanted) { watcher.store(wanted); }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
  }
  return "unknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "peer access is already enabled";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unknown";
}
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const char* given = std::getenv("BRIM_EMULATED_COUNT");
  const int wanted = given ? std::atoi(given) : kDevices;
  *count = wanted < kDevices ? wanted : kDevices;
  if (wanted > 0) return cudaSuccess;
  *count = 0;
  return result(wanted < 0 ? cudaErrorInsufficientDriver : cudaErrorNoDevice);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return result(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= kDevices) return result(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "emulated GPU");
  properties->totalGlobalMem = capacity();
  properties->major = 9;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  if (device < 0 || device >= kDevices) return result(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02X:00.0", 0x10 + device);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (std::max(device, peer) >= kDevices) return result(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (peer >= kDevices || peer == current_device) return result(cudaErrorInvalidDevice);
  return can_access[current_device][peer].exchange(true) ? result(cudaErrorPeerAccessAlreadyEnabled)
                                                         : cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(memory().mutex);
  *total = capacity();
  *free = *total - std::min(memory().used, *total);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  if (refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(memory().mutex);
  if (memory().used + bytes > capacity() || posix_memalign(data, kAlignment, bytes) != 0)
    return result(cudaErrorMemoryAllocation);
  std::memset(*data, 0xcd, bytes);  // nobody may rely on zeros
  memory().blocks[*data] = bytes;
  memory().used += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  if (refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(memory().mutex);
  if (const auto at = memory().blocks.find(data); at != memory().blocks.end()) {
    memory().used -= at->second;
    memory().blocks.erase(at);
  }
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  return posix_memalign(data, kAlignment, bytes) == 0 ? cudaSuccess
                                                      : result(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  submit_as(kind == cudaMemcpyHostToDevice   ? "to device"
            : kind == cudaMemcpyDeviceToHost ? "to host"
                                             : "on device",
            [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  submit_as(can_access[to_device][from_device] || can_access[from_device][to_device] ? "between"
                                                                                     : "staged",
            [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  submit_as("memset", [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static std::atomic<uintptr_t> next{1};
  *stream = reinterpret_cast<cudaStream_t>(next++);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  return refused_in_capture() ? result(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  return std::getenv("BRIM_EMULATED_BUSY") ? result(cudaErrorNotReady) : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  *event = {std::chrono::steady_clock::now(), spent()};
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  return is_lost() ? result(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  return refused_in_capture() ? result(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = time_is_spent
                      ? static_cast<float>(to->spent - from->spent)
                      : std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  captured = new EmulatedGraph;
  capture_failed = false;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(captured, nullptr);
  if (!capture_failed) return cudaSuccess;
  release(*graph);
  *graph = nullptr;
  return result(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  ++graph->owners;
  *exec = graph;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, EmulatedNode**, size_t* count) {
  *count = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  ++queued;
  const EmulationWatcher watch = watcher.load();
  const auto tell = [&](int phase) {
    if (watch) watch("graph", current_device, phase);
  };
  tell(0);
  tell(1);
  for (const auto& work : exec->work) work();
  tell(2);
  spent() += exec->spent;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  release(exec);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  release(graph);
  return cudaSuccess;
}
