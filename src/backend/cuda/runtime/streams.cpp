// See streams.h; also which handle the work of a stream is queued on: while a step is captured, it
// is another one.
#include "backend/cuda/runtime/streams.h"

#include <algorithm>
#include <atomic>

#include "backend/cuda/graph/capture.h"
#include "backend/cuda/observe/measure.h"
#include "backend/cuda/runtime/runtime.h"
#include "core/check.h"

namespace brim::cuda {
namespace {

cudaStream_t create(int device) {
  const DeviceGuard guard(device);
  cudaStream_t stream = nullptr;
  BRIM_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

}  // namespace

Streams& Streams::all() {
  static auto* all =
      new Streams;  // never destroyed: the driver may be gone before static objects are
  return *all;
}

cudaStream_t Streams::at(int device, int32_t id) {
  const std::lock_guard lock(mutex_);
  if (all_.size() <= static_cast<size_t>(device)) all_.resize(static_cast<size_t>(device) + 1);
  auto& streams = all_[static_cast<size_t>(device)];
  if (streams.empty()) streams.push_back(create(device));
  if (static_cast<size_t>(id) >= streams.size())
    raise<DeviceError>("[cuda] cuda:{} has no stream {}", device, id);
  return streams[static_cast<size_t>(id)];
}

int32_t Streams::add_private(int device) {
  (void)at(device, 0);
  const std::lock_guard lock(mutex_);
  auto& streams = all_[static_cast<size_t>(device)];
  streams.push_back(create(device));
  return static_cast<int32_t>(streams.size()) - 1;
}

int32_t Streams::add(int device) {
  {
    const std::lock_guard lock(mutex_);
    if (shared_.size() <= static_cast<size_t>(device))
      shared_.resize(static_cast<size_t>(device) + 1);
    const auto& shared = shared_[static_cast<size_t>(device)];
    if (shared.size() == kMax) return shared[turn_++ % kMax];
  }
  const int32_t id = add_private(device);
  const std::lock_guard lock(mutex_);
  shared_[static_cast<size_t>(device)].push_back(id);
  return id;
}

int Streams::first_device() {
  const std::lock_guard lock(mutex_);
  const auto used = std::ranges::find_if(all_, [](const auto& s) { return !s.empty(); });
  return used == all_.end() ? 0 : static_cast<int>(used - all_.begin());
}

std::vector<cudaStream_t> Streams::of(int device) {
  (void)at(device, 0);
  const std::lock_guard lock(mutex_);
  return all_[static_cast<size_t>(device)];
}

bool is_captured(Stream stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  BRIM_CUDA(cudaStreamIsCapturing(native(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

bool all_streams_idle(int device) {
  for (const cudaStream_t stream : Streams::all().of(device)) {
    if (cudaStreamQuery(stream) == cudaSuccess) continue;
    (void)cudaGetLastError();
    return false;
  }
  return true;
}

namespace {
// Of the last native_for_kernel(), unless native() was asked since.
std::atomic<cudaStream_t> last_of_kernel = nullptr;

cudaStream_t handle_of(Stream stream) {
  if (const cudaStream_t captured = Capture::native(stream)) return captured;
  return Streams::all().at(stream.device.index, stream.id);
}
}  // namespace

cudaStream_t native(Stream stream) {
  if (launches_dependently(stream.device.index)) last_of_kernel = nullptr;
  return handle_of(stream);
}

KernelStream native_for_kernel(Stream stream) {
  const cudaStream_t handle = handle_of(stream);
  return {handle,
          launches_dependently(stream.device.index) && last_of_kernel.exchange(handle) == handle};
}

}  // namespace brim::cuda
