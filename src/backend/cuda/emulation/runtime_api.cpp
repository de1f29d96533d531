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
  bool timed = true;
  bool captured = false;
  std::chrono::steady_clock::time_point at{};
  double spent = 0;  // milliseconds
};

struct EmulatedGraph {
  std::vector<std::function<void()>> work;
  double spent = 0;     // milliseconds of a launch
  bool failed = false;  // the capture: it has seen what it must not
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

/// The streams that are captured, by whatever thread.
struct Captures {
  std::mutex mutex;
  std::map<cudaStream_t, EmulatedGraph*> of;

  /// Calls f(graph) and returns true if the stream is captured.
  template <class F>
  bool with(cudaStream_t stream, const F& f) {
    const std::lock_guard lock(mutex);
    const auto found = of.find(stream);
    if (found == of.end()) return false;
    f(*found->second);
    return true;
  }
};
Captures& captures() {
  static auto* all = new Captures;
  return *all;
}
/// Lets milliseconds pass in what the stream is captured as, or for all that this thread queues;
/// returns the sum of the latter.
double spend_on(cudaStream_t stream, double milliseconds) {
  static thread_local double all = 0;
  if (!captures().with(stream, [&](EmulatedGraph& graph) { graph.spent += milliseconds; }))
    all += milliseconds;
  return all;
}
std::atomic<int64_t> queued{0};  // pieces of work

/// Whether the GPU is gone: after BRIM_EMULATED_LOST pieces of work. As on a real one, every call
/// then fails with the same error.
bool is_lost() {
  const char* after = std::getenv("BRIM_EMULATED_LOST");
  return after && queued.load() >= std::atoll(after);
}

thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeThreadLocal;

/// What would change the device's memory map ends the capture of this thread.
bool refused_in_capture() {
  if (!captured || capture_mode == cudaStreamCaptureModeRelaxed) return false;
  const std::lock_guard lock(captures().mutex);
  captured->failed = true;
  return true;
}
/// Waiting for a stream ends its capture, whoever waits.
bool is_refused(cudaStream_t stream) {
  return captures().with(stream, [](EmulatedGraph& graph) { graph.failed = true; });
}

/// Devices that this process has a context on.
std::atomic<bool> contexts[kDevices];

/// Makes the context of this thread's device, as most calls do. Refused on a device that is taken
/// by another process alone: BRIM_EMULATED_TAKEN.
bool is_taken() {
  const char* taken = std::getenv("BRIM_EMULATED_TAKEN");
  if (taken && std::atoi(taken) == current_device) return true;
  contexts[current_device] = true;
  return false;
}

void release(EmulatedGraph* graph) {
  if (--graph->owners == 0) delete graph;
}

/// submit() for work of any kind (see EmulationWatcher).
void submit_as(const char* kind, cudaStream_t stream, std::function<void()> work) {
  constexpr double kLaunch = 50;  // milliseconds: long, so that measuring repeats little
  if (time_is_spent) spend_on(stream, kLaunch);
  const bool is_captured = brim::cuda::emulation::is_captured(stream);
  if (const EmulationWatcher watch = watcher.load()) {
    if (!is_captured) watch(kind, current_device, 0);
    work = [watch, kind, device = current_device, unwatched = std::move(work)] {
      watch(kind, device, 1);
      unwatched();
      watch(kind, device, 2);
    };
  }
  if (is_captured) {
    captures().with(stream, [&](EmulatedGraph& graph) { graph.work.push_back(std::move(work)); });
  } else if (!is_lost()) {
    ++queued;
    work();
  }
}
}  // namespace

namespace brim::cuda::emulation {

void submit(cudaStream_t stream, std::function<void()> work) {
  submit_as("kernel", stream, std::move(work));
}
bool is_captured(cudaStream_t stream) {
  return captures().with(stream, [](const auto&) {});
}
bool is_capturing() { return captured; }
void spend(cudaStream_t stream, double milliseconds) {
  time_is_spent = true;
  spend_on(stream, milliseconds);
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

/// Of the driver: whether the process uses the device.
extern "C" int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = contexts[device];
  return 0;
}

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
    case cudaErrorDevicesUnavailable:
      return "cudaErrorDevicesUnavailable";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "cudaErrorPeerAccessAlreadyEnabled";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
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
    case cudaErrorDevicesUnavailable:
      return "CUDA-capable device(s) is/are busy or unavailable";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "peer access is already enabled";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
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
  return result(wanted == 0    ? cudaErrorNoDevice
                : wanted == -1 ? cudaErrorInsufficientDriver
                               : static_cast<cudaError>(-wanted));
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
  return is_taken() ? result(cudaErrorDevicesUnavailable) : cudaSuccess;
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
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  const std::lock_guard lock(memory().mutex);
  *total = capacity();
  *free = *total - std::min(memory().used, *total);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
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
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
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
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  if (refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
  return posix_memalign(data, kAlignment, bytes) == 0 ? cudaSuccess
                                                      : result(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* data) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  submit_as(kind == cudaMemcpyHostToDevice   ? "to device"
            : kind == cudaMemcpyDeviceToHost ? "to host"
                                             : "on device",
            stream, [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  submit_as(can_access[to_device][from_device] || can_access[from_device][to_device] ? "between"
                                                                                     : "staged",
            stream, [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  submit_as("memset", stream, [=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  static std::atomic<uintptr_t> next{1};
  *stream = reinterpret_cast<cudaStream_t>(next++);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  return is_refused(stream) ? result(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const bool ends = !event->captured && is_refused(stream);
  return ends ? result(cudaErrorStreamCaptureIsolation) : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  if (is_refused(stream)) return result(cudaErrorStreamCaptureUnsupported);
  return std::getenv("BRIM_EMULATED_BUSY") ? result(cudaErrorNotReady) : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  *event = new CUevent_st{.timed = flags != cudaEventDisableTiming};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  if (is_lost()) return result(cudaErrorLaunchFailure);
  event->captured = brim::cuda::emulation::is_captured(stream);
  event->at = std::chrono::steady_clock::now();
  event->spent = spend_on(stream, 0);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  return is_lost() ? result(cudaErrorLaunchFailure) : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  if (is_lost()) return result(cudaErrorLaunchFailure);
  return refused_in_capture() ? result(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!from->timed || !to->timed) return result(cudaErrorInvalidResourceHandle);
  *milliseconds = time_is_spent
                      ? static_cast<float>(to->spent - from->spent)
                      : std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(captures().mutex);
  EmulatedGraph*& graph = captures().of[stream];
  if (graph) return result(cudaErrorStreamCaptureUnsupported);
  captured = graph = new EmulatedGraph;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = brim::cuda::emulation::is_captured(stream) ? cudaStreamCaptureStatusActive
                                                       : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(captures().mutex);
  *graph = std::exchange(captured, nullptr);
  captures().of.erase(stream);
  if (!(*graph)->failed) return cudaSuccess;
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
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
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
  spend_on(stream, exec->spent);
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
