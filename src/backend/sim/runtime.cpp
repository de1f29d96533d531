// Virtual accelerators as brim's runtime sees them.
#include "core/runtime.h"

#include <chrono>
#include <cstring>
#include <memory>

#include "backend/cpu/runtime/isa.h"
#include "backend/sim/device.h"
#include "backend/sim/launch.h"
#include "core/check.h"
#include "diag/span.h"

namespace brim::sim {
namespace {

std::shared_ptr<StreamEvent> event_of(const std::shared_ptr<void>& handle) {
  return std::static_pointer_cast<StreamEvent>(handle);
}

class SimRuntime final : public Runtime {
 public:
  int device_count() const override { return Devices::all().count(); }

  std::string description(int) const override {
    const auto profile = Devices::all().profile();
    const SimOptions options = Devices::all().options();
    std::string text = profile ? fmt::format("virtual accelerator at the pace of {}", profile->name)
                               : std::string("virtual accelerator, computed by the CPU");
    if (profile && options.slowdown != 1)
      text += fmt::format(", {} times slower", options.slowdown);
    return text + fmt::format(", {} MiB", Devices::all().capacity() >> 20);
  }

  DeviceMemory memory(int device) const override {
    const AddressSpace& memory = Devices::all().memory(device);
    return {memory.capacity(), memory.free_bytes()};
  }

  void* allocate(int device, size_t bytes) override {
    cpu::check_isa();
    return Devices::all().memory(device).allocate(bytes);
  }

  void deallocate(int device, void* data, size_t bytes) noexcept override {
    // Like cudaFree: work that still uses the memory comes first. Its errors stay with the stream.
    Devices::all().drain(device);
    if (backend::StreamChecker* checker = Devices::all().checker()) checker->forget(data, bytes);
    Devices::all().memory(device).deallocate(data, bytes);
  }

  size_t page(int) override { return AddressSpace::kPage; }
  void* reserve(int device, size_t bytes) override {
    cpu::check_isa();
    return Devices::all().memory(device).reserve(bytes);
  }
  bool commit(int device, void* data, size_t bytes) override {
    return Devices::all().memory(device).commit(data, bytes);
  }
  bool decommit(int device, void* data, size_t bytes) noexcept override {
    Devices::all().drain(device);
    if (backend::StreamChecker* checker = Devices::all().checker()) checker->forget(data, bytes);
    Devices::all().memory(device).decommit(data, bytes);
    return true;
  }

  void check_reuse(const void* data, size_t bytes, Stream stream) override {
    if (backend::StreamChecker* checker = Devices::all().checker())
      checker->reuse(Devices::all().stream(stream).number(), data, bytes);
  }

  void launch_as_one(Stream stream, const RepeatedWork& work, std::shared_ptr<void>&) override {
    enqueue_as_one(stream, [&] {
      for (int step = 0; step < work.steps; ++step) (void)work.queue(step);
    });
  }

  void copy(void* to, Device to_device, const void* from, Device from_device, size_t bytes,
            Stream stream) override {
    if (bytes == 0) return;
    Work work{.name = "copy", .bytes = static_cast<double>(bytes)};
    if (from_device.is_cpu()) {
      work.engine = Engine::copy_in;
      // The host may change or free its end as soon as we return.
      const std::shared_ptr<char[]> staged(new char[bytes]);
      std::memcpy(staged.get(), from, bytes);
      void* target = real_address(to, to_device);
      work.touches = {{.address = to, .bytes = bytes, .writes = true}};
      work.run = [=] { std::memcpy(target, staged.get(), bytes); };
    } else if (to_device.is_cpu()) {
      work.engine = Engine::copy_out;
      const void* source = real_address(from, from_device);
      work.touches = {{.address = from, .bytes = bytes}};
      work.run = [=] { std::memcpy(to, source, bytes); };
    } else {
      work.engine = to_device == from_device ? Engine::compute : Engine::peer;
      void* target = real_address(to, to_device);
      const void* source = real_address(from, from_device);
      work.touches = {{.address = from, .bytes = bytes},
                      {.address = to, .bytes = bytes, .writes = true}};
      work.run = [=] { std::memcpy(target, source, bytes); };
    }
    enqueue(stream, std::move(work));
  }

  void copy_from_pinned(void* to, Device to_device, const void* from, size_t bytes,
                        Stream stream) override {
    if (bytes == 0) return;
    void* target = real_address(to, to_device);
    enqueue(stream, {.name = "copy",
                     .engine = Engine::copy_in,
                     .bytes = static_cast<double>(bytes),
                     .touches = {{.address = to, .bytes = bytes, .writes = true}},
                     .run = [=] { std::memcpy(target, from, bytes); }});
  }

  Stream create_stream(int device) override { return Devices::all().create_stream(device); }
  Stream create_private_stream(int device) override {
    return Devices::all().create_private_stream(device);
  }
  void forget_errors(Stream stream) override {
    launch_collected();
    Devices::all().stream(stream).forget_error();
  }

  void synchronize(Stream stream) override {
    wait_on_host(*event_of(record(stream, false)));
    if (const std::exception_ptr error = Devices::all().stream(stream).take_error())
      std::rethrow_exception(error);
  }
  void synchronize(int device) override { Devices::all().synchronize(device); }

  std::shared_ptr<void> record(Stream stream, bool) override {
    launch_collected();
    return Devices::all().record(Devices::all().stream(stream));
  }
  void wait(const std::shared_ptr<void>& event, Stream stream) override {
    launch_collected();
    SimStream& s = Devices::all().stream(stream);
    if (backend::StreamChecker* checker = Devices::all().checker())
      checker->wait(s.number(), event_of(event)->clock);
    s.wait(event_of(event));
  }
  void wait_until_done(const std::shared_ptr<void>& event, Stream stream) override {
    launch_collected();
    SimStream& s = Devices::all().stream(stream);
    if (backend::StreamChecker* checker = Devices::all().checker())
      checker->wait(s.number(), event_of(event)->clock);
    s.wait_until_done(event_of(event));
  }
  bool query(const std::shared_ptr<void>& event) override {
    if (!event_of(event)->done.load(std::memory_order_acquire)) return false;
    wait_on_host(*event_of(event));  // so that the checker knows, too
    return true;
  }
  void synchronize(const std::shared_ptr<void>& event) override {
    wait_on_host(*event_of(event));
    if (event_of(event)->error) std::rethrow_exception(event_of(event)->error);
  }
  double elapsed_ms(const std::shared_ptr<void>& begin, const std::shared_ptr<void>& end) override {
    return std::chrono::duration<double, std::milli>(event_of(end)->at - event_of(begin)->at)
        .count();
  }
};

const bool registered = [] {
  static SimRuntime sim;
  register_runtime(DeviceKind::sim, sim);
  return true;
}();

}  // namespace
}  // namespace brim::sim
