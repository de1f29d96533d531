#include "backend/sim/launch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "backend/launch_policy.h"
#include "backend/sim/device.h"
#include "core/check.h"
#include "core/with_storage.h"
#include "diag/span.h"

namespace brim::sim {
namespace {

/// Ends the streams when the main thread calls exit: destructors of its thread_local objects run
/// before those of statics, which kernels (oneDNN's, for one) may still need.
struct StopBeforeStatics {
  bool main_thread = gettid() == getpid();
  ~StopBeforeStatics() {
    if (main_thread) Devices::all().stop();
  }
};

/// What a thread collects for one launch: runs of work on one stream.
struct Collection {
  struct Run {
    Stream stream;
    std::vector<Work> works;
  };
  Device device;
  std::vector<Run> runs;
  bool is_launched = false;
};
thread_local Collection* collection = nullptr;

void spin(double seconds) {
  const auto end = Pacer::Clock::now() + std::chrono::duration_cast<Pacer::Clock::duration>(
                                             std::chrono::duration<double>(seconds));
  while (Pacer::Clock::now() < end) {
  }
}

}  // namespace

void enqueue(const Stream& stream, Work work) {
  static thread_local StopBeforeStatics stop;
  (void)stop.main_thread;  // makes it
  Devices& devices = Devices::all();
  SimStream& target = devices.stream(stream);
  if (backend::StreamChecker* checker = devices.checker())
    checker->work(target.number(), work.name, work.touches);
  if (collection && collection->device == stream.device) {
    std::vector<Collection::Run>& runs = collection->runs;
    if (runs.empty() || runs.back().stream != stream) runs.push_back({stream, {}});
    runs.back().works.push_back(std::move(work));
    return;
  }
  if (const double seconds = devices.pacer(stream.device.index).launch_seconds(); seconds > 0)
    spin(seconds);
  target.push(std::move(work));
}

void launch_collected() {
  if (!collection || collection->runs.empty()) return;
  Devices& devices = Devices::all();
  if (!std::exchange(collection->is_launched, true))
    if (const double seconds = devices.pacer(collection->device.index).launch_seconds();
        seconds > 0)
      spin(seconds);
  for (Collection::Run& run : std::exchange(collection->runs, {}))
    devices.stream(run.stream).push(std::move(run.works));
}

void enqueue_as_one(const Stream& stream, const std::function<void()>& queue_work) {
  if (collection) return queue_work();  // a part of the launch around it
  Collection collected{.device = stream.device};
  collection = &collected;
  try {
    queue_work();
    launch_collected();
  } catch (...) {
    collection = nullptr;  // what was not launched yet never is
    throw;
  }
  collection = nullptr;
}

void* real_address(const void* address, Device device) {
  return Devices::all().memory(device.index).translate(address);
}

Tensor shadow(const Tensor& t) {
  if (!t.defined()) return {};
  const Storage& storage = *t.storage();
  storage.check_computed();  // here, not on the stream's thread
  return with_storage(
      t, Storage::wrap(storage.device().is_cpu() ? storage.data()
                                                 : real_address(storage.data(), storage.device()),
                       storage.bytes(), Device::cpu(), {}));
}

namespace {

Engine engine_of(extend::Work work) {
  switch (work) {
    case extend::Work::communication:
      return Engine::peer;
    case extend::Work::to_host:
      return Engine::copy_out;
    case extend::Work::to_device:
      return Engine::copy_in;
    default:
      return Engine::compute;
  }
}

/// What is queued of a kernel, but for running it.
Work work_of(const char* name, DType dtype, const backend::Call& call) {
  const diag::OpCall op = backend::op_call(name, dtype, call);
  return {.name = name,
          .engine = engine_of(call.work()),
          .dtype = dtype,
          .operations = op.operations,
          .bytes = op.bytes};
}

/// Queues the CPU's kernel.
void launch(const Context& context, const char* name, DType dtype, const backend::Call& call) {
  const diag::Span span(name, diag::Cause::dispatch);
  Work work = work_of(name, dtype, call);
  if (diag::profiles_ops()) work.shapes = backend::shapes_of(call);
  call.for_each_tensor([&](const Tensor& t, bool writes) {
    if (t.defined())
      work.touches.push_back(
          {.address = t.storage()->data(), .bytes = t.storage()->bytes(), .writes = writes});
  });
  work.run = [kept = call.kept(&shadow)]() mutable { kept(Context{Stream{Device::cpu(), 0}}); };
  enqueue(context.stream, std::move(work));
}

double estimate(Device device, DType dtype, const backend::Call& call) {
  return Devices::all().pacer(device.index).estimate(work_of("", dtype, call));
}

const bool policy_registered =
    // They compute on the CPU, at a pace that is not the CPU's.
    backend::register_launch_policy(DeviceKind::sim, {.launch = &launch,
                                                      .kernels = DeviceKind::cpu,
                                                      .trades_time_for_memory = false,
                                                      .can_be_measured = false,
                                                      .estimate = &estimate});

}  // namespace
}  // namespace brim::sim
