// Devices that are host memory, and streams that are queues (queues.h).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <unistd.h>
#include "backend/cuda/emulation/captures.h"
#include "backend/cuda/emulation/memory.h"
#include "backend/cuda/emulation/queues.h"
#include "backend/cuda/emulation/watcher.h"
#include "backend/cuda/observe/activity.h"

namespace emulation = brim::cuda::emulation;

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
  std::map<void*, size_t> blocks, ranges, pinned;  // of devices, the last of the host
  size_t used = 0;
};
Memory& memory() {
  static auto* all = new Memory;
  return *all;
}
bool is_in(const std::map<void*, size_t>& blocks, const void* data, size_t bytes) {
  auto at = blocks.upper_bound(const_cast<void*>(data));
  if (at == blocks.begin()) return false;
  --at;
  return static_cast<const char*>(data) + bytes <= static_cast<const char*>(at->first) + at->second;
}
/// Memory of the host that devices do not reach by themselves.
bool is_pageable(const void* data, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const Memory& m = memory();
  return !is_in(m.blocks, data, bytes) && !is_in(m.ranges, data, bytes) &&
         !is_in(m.pinned, data, bytes);
}

}  // namespace

struct CUevent_st {
  bool timed = true;
  emulation::CapturedMark captured;       // where it was recorded last: in a capture,
  std::shared_ptr<emulation::Mark> mark;  // or here; null: nowhere yet
  double spent = 0;                       // milliseconds
};

namespace {

std::atomic<EmulationWatcher> watcher{nullptr};
/// Whether the first device reaches the memory of the second.
std::atomic<bool> can_access[kDevices][kDevices];

/// Where fakes of libraries say how long their work takes, that is the time that events see.
std::atomic<bool> time_is_spent{false};
/// Lets milliseconds pass in what the stream is captured as, or for all that this thread queues;
/// returns the sum of the latter.
double spend_on(cudaStream_t stream, double milliseconds) {
  static thread_local double all = 0;
  if (!emulation::with_capture(stream, [&](EmulatedGraph& graph) { graph.spent += milliseconds; }))
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

/// Before memory is given back: what may use it is done.
void finish_before_free() {
  if (is_lost())
    emulation::discard_all();
  else
    emulation::finish_device(current_device);
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

/// submit() for work of any kind (see EmulationWatcher).
void submit_as(const char* kind, cudaStream_t stream, std::function<void()> work) {
  constexpr double kLaunch = 50;  // milliseconds: long, so that measuring repeats little
  if (time_is_spent) spend_on(stream, kLaunch);
  const bool is_captured = emulation::is_captured(stream);
  if (const EmulationWatcher watch = watcher.load()) {
    if (!is_captured) watch(kind, current_device, 0);
    work = [watch, kind, device = current_device, unwatched = std::move(work)] {
      watch(kind, device, 1);
      unwatched();
      watch(kind, device, 2);
    };
  }
  if (is_captured) {
    emulation::capture_work(stream, std::move(work));
  } else if (!is_lost()) {
    ++queued;
    emulation::enqueue(stream, current_device, std::move(work));
  }
}
void submit_copy(const char* kind, cudaStream_t stream, void* to, const void* from, size_t bytes) {
  const bool is_captured = emulation::is_captured(stream);
  if (!is_captured && is_pageable(from, bytes)) {
    // Read before the call returns, by way of a buffer of the driver's.
    const auto* const begin = static_cast<const char*>(from);
    submit_as(kind, stream, [to, staged = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  } else {
    submit_as(kind, stream, [=] { std::memmove(to, from, bytes); });
  }
  // Written before the call returns.
  if (!is_captured && is_pageable(to, bytes)) emulation::finish(stream, current_device);
}
}  // namespace

namespace brim::cuda::emulation {

void submit(cudaStream_t stream, std::function<void()> work) {
  submit_as("kernel", stream, std::move(work));
}
void spend(cudaStream_t stream, double milliseconds) {
  time_is_spent = true;
  spend_on(stream, milliseconds);
}
bool is_memory(const void* data, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  return is_in(memory().blocks, data, bytes) || is_in(memory().ranges, data, bytes);
}

}  // namespace brim::cuda::emulation

bool emulation::take_memory(size_t bytes) {
  if (is_taken() || is_lost()) return false;
  const std::lock_guard lock(memory().mutex);
  if (memory().used + bytes > capacity()) return false;
  memory().used += bytes;
  return true;
}
void emulation::give_memory(size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().used -= bytes;
}
void emulation::add_device_addresses(void* data, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().ranges[data] = bytes;
}

/// Of the driver: whether the process uses the device.
extern "C" int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = contexts[device];
  return 0;
}

extern "C" void brim_emulation_watch(EmulationWatcher wanted) { watcher.store(wanted); }

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
  properties->uuid.bytes[0] = static_cast<char>(0xe0 + device);
  if (!std::getenv("BRIM_EMULATED_SHARED")) {  // each process has its own GPUs
    const pid_t process = getpid();
    std::memcpy(properties->uuid.bytes + 4, &process, sizeof(process));
  }
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
  if (emulation::refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
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
  if (emulation::refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
  finish_before_free();
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
  if (emulation::refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
  const char* limit = std::getenv("BRIM_EMULATED_PINNED");
  if ((limit && bytes > std::strtoull(limit, nullptr, 10)) ||
      posix_memalign(data, kAlignment, bytes) != 0)
    return result(cudaErrorMemoryAllocation);
  const std::lock_guard lock(memory().mutex);
  memory().pinned[*data] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  finish_before_free();
  const std::lock_guard lock(memory().mutex);
  memory().pinned.erase(data);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  submit_copy(kind == cudaMemcpyHostToDevice   ? "to device"
              : kind == cudaMemcpyDeviceToHost ? "to host"
                                               : "on device",
              stream, to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                size_t bytes, cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  submit_copy(can_access[to_device][from_device] || can_access[from_device][to_device] ? "between"
                                                                                       : "staged",
              stream, to, from, bytes);
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
  if (emulation::is_refused(stream)) return result(cudaErrorStreamCaptureUnsupported);
  emulation::finish(stream, current_device);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const bool ends = !event->captured && emulation::is_refused(stream);
  if (ends) return result(cudaErrorStreamCaptureIsolation);
  if (!event->captured && event->mark) emulation::enqueue_wait(stream, current_device, event->mark);
  return event->captured ? result(emulation::wait_in_capture(stream, event->captured))
                         : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  if (emulation::is_refused(stream)) return result(cudaErrorStreamCaptureUnsupported);
  if (std::getenv("BRIM_EMULATED_BUSY")) return result(cudaErrorNotReady);
  emulation::finish(stream, current_device);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  *event = new CUevent_st{.timed = flags != cudaEventDisableTiming, .mark = {}};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  if (is_lost()) return result(cudaErrorLaunchFailure);
  event->captured = emulation::mark_in_capture(stream);
  event->mark = event->captured ? nullptr : emulation::enqueue_mark(stream, current_device);
  event->spent = spend_on(stream, 0);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  if (is_lost()) return result(cudaErrorLaunchFailure);
  if (emulation::refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
  if (event->mark) emulation::reach(*event->mark);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (is_taken()) return result(cudaErrorDevicesUnavailable);
  if (is_lost()) return result(cudaErrorLaunchFailure);
  if (emulation::refused_in_capture()) return result(cudaErrorStreamCaptureUnsupported);
  if (event->mark) emulation::reach(*event->mark);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!from->timed || !to->timed || !from->mark || !to->mark)
    return result(cudaErrorInvalidResourceHandle);
  if (!from->mark->is_reached || !to->mark->is_reached) return result(cudaErrorNotReady);
  *milliseconds =
      time_is_spent
          ? static_cast<float>(to->spent - from->spent)
          : std::chrono::duration<float, std::milli>(to->mark->at - from->mark->at).count();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return result(emulation::begin_capture(stream));
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  emulation::swap_capture_mode(*mode);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status =
      emulation::is_captured(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return result(emulation::end_capture(stream, *graph));
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  ++graph->owners;
  graph->changes = brim::cuda::activity_changes();
  *exec = graph;
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, EmulatedNode**, size_t* count) {
  *count = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (is_lost()) return result(cudaErrorLaunchFailure);
  // Where a GPU's libcupti would crash.
  if (exec->changes != brim::cuda::activity_changes()) return result(cudaErrorInvalidValue);
  ++queued;
  const auto tell = [watch = watcher.load(), device = current_device](int phase) {
    if (watch) watch("graph", device, phase);
  };
  tell(0);
  // It may be destroyed before it is done.
  const std::shared_ptr<EmulatedGraph> graph = emulation::shared(exec);
  emulation::enqueue(stream, current_device, [graph, tell] {
    tell(1);
    for (const auto& work : graph->work) work();
    tell(2);
  });
  spend_on(stream, exec->spent);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  emulation::release(exec);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  emulation::release(graph);
  return cudaSuccess;
}
