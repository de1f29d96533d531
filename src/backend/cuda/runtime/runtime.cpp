// CUDA's devices as brim's runtime sees them. All work is queued on non-blocking streams of our
// own; nothing here waits for a whole device but synchronize(device) and cudaFree.
#include "backend/cuda/runtime/runtime.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <brim/core/allocator.h>
#include <cuda_runtime.h>
#include "backend/cuda/graph/capture.h"
#include "backend/cuda/graph/graphs.h"
#include "backend/cuda/observe/measure.h"
#include "backend/cuda/runtime/event_pool.h"
#include "backend/cuda/runtime/failure.h"
#include "backend/cuda/runtime/fault.h"
#include "backend/cuda/runtime/ranges.h"
#include "backend/cuda/runtime/stream_check.h"
#include "backend/cuda/runtime/streams.h"
#include "backend/queued_op.h"
#include "core/check.h"
#include "core/runtime.h"
#include "diag/span.h"

namespace brim::cuda {
namespace {

/// Lets two devices reach each other's memory where the machine can, so that copies between them do
/// not go through the host. Where CUDA refuses, copies work all the same.
void join_peers(int a, int b) {
  static auto& joined = *new std::set<std::pair<int, int>>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (!joined.insert(std::minmax(a, b)).second) return;
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    int can = 0;
    if (cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess && can) {
      const DeviceGuard guard(from);
      (void)cudaDeviceEnablePeerAccess(to, 0);  // done before by others, or one peer too many
    }
    (void)cudaGetLastError();
  }
}

const PooledEvent& event_of(const std::shared_ptr<void>& handle) {
  return *std::static_pointer_cast<PooledEvent>(handle);
}

class CudaRuntime final : public Runtime {
 public:
  int device_count() const override { return counted().first; }
  std::string why_absent() const override {
    switch (static_cast<int>(counted().second)) {
      case cudaSuccess:
        return "";
      case cudaErrorInsufficientDriver:
        return "the NVIDIA driver is older than brim's CUDA runtime; install driver 580 or newer";
      case kSystemNotReady:
        return "the GPUs are not ready; where they are joined by NVSwitch, start the fabric "
               "manager "
               "(systemctl start nvidia-fabricmanager) of the driver's version";
      case kSystemDriverMismatch:
        return "libcuda.so.1 and the NVIDIA driver's kernel module are of different versions; "
               "reboot, or in a container use the host's driver libraries (--gpus all)";
      case cudaErrorNoDevice:
        return "the NVIDIA driver shows no GPU; see what nvidia-smi and CUDA_VISIBLE_DEVICES say";
      default:
        return fmt::format("CUDA finds no GPU: {} ({}); see what nvidia-smi and dmesg say",
                           cudaGetErrorString(counted().second),
                           cudaGetErrorName(counted().second));
    }
  }

  std::string description(int device) const override {
    cudaDeviceProp p{};
    BRIM_CUDA(cudaGetDeviceProperties(&p, device));
    return fmt::format("{}, {} MiB, {} multiprocessors, compute capability {}.{}", p.name,
                       p.totalGlobalMem >> 20, p.multiProcessorCount, p.major, p.minor);
  }

  DeviceMemory memory(int device) const override {
    const DeviceGuard guard(device);
    DeviceMemory m;
    BRIM_CUDA(cudaMemGetInfo(&m.free, &m.total));
    return m;
  }

  void* allocate(int device, size_t bytes) override {
    (void)checker();  // looks from the first memory on
    const DeviceGuard guard(device);
    void* data = nullptr;
    const cudaError_t result = outside_captures([&] { return cudaMalloc(&data, bytes); });
    if (result == cudaSuccess) return data;
    if (result != cudaErrorMemoryAllocation) check(result, "cudaMalloc");
    (void)cudaGetLastError();
    return nullptr;
  }
  void deallocate(int device, void* data, size_t bytes) noexcept override {
    if (backend::StreamChecker* c = checker()) c->forget(data, bytes);
    int before = 0;
    (void)cudaGetDevice(&before);
    if (before != device) (void)cudaSetDevice(device);
    (void)cudaFree(data);
    if (before != device) go_back(before);
  }

  size_t page(int device) override { return range_page(device); }
  void* reserve(int device, size_t bytes) override { return reserve_range(device, bytes); }
  bool commit(int device, void* data, size_t bytes) override {
    (void)checker();
    return commit_range(device, data, bytes);
  }
  bool decommit(int device, void* data, size_t bytes) noexcept override {
    if (!decommit_range(device, data, bytes)) return false;
    if (backend::StreamChecker* c = checker()) c->forget(data, bytes);
    return true;
  }

  void check_reuse(const void* data, size_t bytes, Stream stream) override {
    if (backend::StreamChecker* c = checker()) c->reuse(checked_number(stream), data, bytes);
  }

  void copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes,
            Stream stream) override {
    if (bytes == 0) return;
    if (checker()) {
      std::vector<backend::Touch> touches;
      if (!from_device.is_cpu()) touches.push_back({from, bytes, false});
      if (!to_device.is_cpu()) touches.push_back({to, bytes, true});
      check_work(stream, "copy", touches);
    }
    const DeviceGuard guard(stream.device.index);
    const cudaStream_t queue = native(stream);
    const bool to_host = to_device.is_cpu(), from_host = from_device.is_cpu();
    if (!to_host && !from_host && to_device != from_device)
      join_peers(to_device.index, from_device.index);
    {
      const QueuedWork work(stream,
                            to_host                    ? diag::Cause::copy_to_host
                            : from_host                ? diag::Cause::copy_to_device
                            : to_device == from_device ? diag::Cause::compute
                                                       : diag::Cause::communication,
                            "copy");
      if (to_host)
        BRIM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue));
      else if (from_host)
        BRIM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue));
      else if (to_device == from_device)
        BRIM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue));
      else
        BRIM_CUDA(cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, bytes, queue));
    }
    // CUDA returns when it has staged the source, or at once where the GPU reads it by itself:
    // page-locked memory, and with HMM or ATS any.
    if (from_host) waited(cudaStreamSynchronize(queue), stream);
  }

  void copy_from_pinned(void* to, Device, const void* from, size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    if (checker()) check_work(stream, "copy", {{{to, bytes, true}}});
    const DeviceGuard guard(stream.device.index);
    const QueuedWork work(stream, diag::Cause::copy_to_device, "copy");
    BRIM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, native(stream)));
  }

  void* allocate_host(size_t bytes) override {
    const DeviceGuard guard(Streams::all().first_device());
    void* data = nullptr;
    const cudaError_t result =
        outside_captures([&] { return cudaHostAlloc(&data, bytes, cudaHostAllocPortable); });
    if (result == cudaSuccess) return data;
    if (result != cudaErrorMemoryAllocation) check(result, "cudaHostAlloc");
    (void)cudaGetLastError();
    return nullptr;
  }
  void deallocate_host(void* data, size_t) noexcept override {
    int before = 0;
    (void)cudaGetDevice(&before);
    const int device = Streams::all().first_device();
    if (before != device) (void)cudaSetDevice(device);
    (void)cudaFreeHost(data);
    if (before != device) go_back(before);
  }

  void launch_as_one(Stream stream, const RepeatedWork& work,
                     std::shared_ptr<void>& kept) override {
    if (!kept) kept = std::make_shared<Graphs>();
    std::static_pointer_cast<Graphs>(kept)->run(stream, work);
  }
  RepeatedStats repeated(const std::shared_ptr<void>& kept) const override {
    return kept ? std::static_pointer_cast<Graphs>(kept)->stats() : RepeatedStats();
  }

  void* native_stream(Stream stream) override { return native(stream); }
  void queue_native(Stream stream, const std::function<int()>& call) override {
    const DeviceGuard guard(stream.device.index);
    check(with_room(stream, [&] { return static_cast<cudaError_t>(call()); }), "a kernel's launch");
    note_queued(stream.device.index);
  }

  Stream create_stream(int device) override {
    return {Device::cuda(device), Streams::all().add(device)};
  }
  Stream create_private_stream(int device) override {
    return {Device::cuda(device), Streams::all().add_private(device)};
  }

  void synchronize(Stream stream) override {
    const DeviceGuard guard(stream.device.index);
    waited(cudaStreamSynchronize(native(stream)), stream);
  }
  void synchronize(int device) override {
    const DeviceGuard guard(device);
    const size_t count = Streams::all().of(device).size();
    for (size_t id = 0; id < count; ++id) {
      const Stream stream{Device::cuda(device), static_cast<int32_t>(id)};
      waited(cudaStreamSynchronize(native(stream)), stream);
    }
  }

  std::shared_ptr<void> record(Stream stream, bool timed) override {
    const DeviceGuard guard(stream.device.index);
    auto event = std::make_shared<PooledEvent>(stream.device.index, timed);
    // Taken first: what is queued in between is not covered.
    if (backend::StreamChecker* c = checker()) event->clock = c->record(checked_number(stream));
    BRIM_CUDA(cudaEventRecord(event->get(), native(stream)));
    return event;
  }
  void wait(const std::shared_ptr<void>& event, Stream stream) override {
    const DeviceGuard guard(stream.device.index);
    if (backend::StreamChecker* c = checker())
      c->wait(checked_number(stream), event_of(event).clock);
    const uint64_t at = diag::ticks();
    BRIM_CUDA(cudaStreamWaitEvent(native(stream), event_of(event).get(), 0));
    stream_waits(stream, event_of(event).device(), at);
  }
  bool may_wait(Stream stream) override { return !is_captured(stream); }
  void rethrow_deferred(int device) override { rethrow_fault(device); }
  bool query(const std::shared_ptr<void>& event) override {
    const DeviceGuard guard(event_of(event).device());
    const cudaError_t result =
        outside_captures([&] { return cudaEventQuery(event_of(event).get()); });
    if (result == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    passed(result, event_of(event).device());
    host_waited(event_of(event).clock);
    return true;
  }
  void synchronize(const std::shared_ptr<void>& event) override {
    const DeviceGuard guard(event_of(event).device());
    passed(cudaEventSynchronize(event_of(event).get()), event_of(event).device());
    host_waited(event_of(event).clock);
  }
  double elapsed_ms(const std::shared_ptr<void>& begin, const std::shared_ptr<void>& end) override {
    const DeviceGuard guard(event_of(begin).device());
    float milliseconds = 0;
    BRIM_CUDA(cudaEventElapsedTime(&milliseconds, event_of(begin).get(), event_of(end).get()));
    return static_cast<double>(milliseconds);
  }

 private:
  static constexpr int kSystemNotReady = 802, kSystemDriverMismatch = 803;
  /// The number of devices, and what asking for it met.
  static const std::pair<int, cudaError_t>& counted() {
    static const std::pair<int, cudaError_t> result = [] {
      int n = 0;
      const cudaError_t error = cudaGetDeviceCount(&n);
      (void)cudaGetLastError();
      return std::pair(error == cudaSuccess ? n : 0, error);
    }();
    return result;
  }
  /// What queued work met shows when it is waited for. Who waits for an event, a worker of the
  /// loader perhaps, is not told what kernels reported: that is for who waits for the stream.
  static void passed(cudaError_t result, int device) {
    if (result != cudaSuccess) [[unlikely]]
      wait_failed(result, device);
    device_waited(device);
  }
  static void waited(cudaError_t result, Stream stream) {
    passed(result, stream.device.index);
    if (backend::StreamChecker* c = checker()) host_waited(c->record(checked_number(stream)));
    rethrow_fault(stream.device.index);
  }
  static void host_waited(const backend::StreamChecker::Clock& clock) {
    if (backend::StreamChecker* c = checker()) c->wait_on_host(clock);
  }
};

const bool registered = [] {
  static CudaRuntime cuda;
  register_runtime(DeviceKind::cuda, cuda);
  return true;
}();

}  // namespace

bool made_room(Stream stream) {
  (void)cudaGetLastError();
  Allocator& allocator = Allocator::of(stream.device);
  const int64_t idle = allocator.stats().idle;
  if (is_captured(stream) || idle == 0) return false;
  allocator.release_cached();
  return allocator.stats().idle < idle;  // none goes while a step is captured
}

void go_back(int device) noexcept {
  // Of the driver, which CUDA's runtime has opened; CUDA Driver API, "Primary Context Management".
  using State = int (*)(int device, unsigned* flags, int* active);
  static const State state = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return reinterpret_cast<State>(
        dlsym(driver ? driver : RTLD_DEFAULT, "cuDevicePrimaryCtxGetState"));
  }();
  unsigned flags = 0;
  int active = 0;
  if (state && state(device, &flags, &active) == 0 && !active) return;
  (void)cudaSetDevice(device);
}

}  // namespace brim::cuda
