// The table of runtimes. A kind without a backend gets one that has no devices and says so.
#include "core/runtime.h"

#include <array>
#include <atomic>

#include "core/check.h"
#include "core/plugin.h"

namespace brim {
namespace {

class NoRuntime final : public Runtime {
 public:
  explicit NoRuntime(DeviceKind kind) : kind_(kind) {}

  int device_count() const override { return 0; }
  std::string why_absent() const override {
    const std::string& why = plugin(kind_).error;
    return why.empty() ? "its backend is not loaded" : why;
  }
  std::string description(int) const override { absent(); }
  DeviceMemory memory(int) const override { absent(); }
  void* allocate(int, size_t) override { absent(); }
  void deallocate(int, void*, size_t) noexcept override {}
  void copy(void*, Device, const void*, Device, size_t, Stream) override { absent(); }
  Stream create_stream(int) override { absent(); }
  void synchronize(Stream) override { absent(); }
  void synchronize(int) override { absent(); }
  std::shared_ptr<void> record(Stream, bool) override { absent(); }
  void wait(const std::shared_ptr<void>&, Stream) override { absent(); }
  bool query(const std::shared_ptr<void>&) override { absent(); }
  void synchronize(const std::shared_ptr<void>&) override { absent(); }
  double elapsed_ms(const std::shared_ptr<void>&, const std::shared_ptr<void>&) override {
    absent();
  }

 private:
  [[noreturn]] void absent() const {
    raise<DeviceError>("[device] {} is not available: {}; see `brim env`", name(kind_),
                       why_absent());
  }
  DeviceKind kind_;
};

// Atomic because a backend may be loaded while other threads query devices.
std::array<std::atomic<Runtime*>, kDeviceKindCount>& table() {
  static std::array<std::atomic<Runtime*>, kDeviceKindCount> runtimes{};
  return runtimes;
}

}  // namespace

void StreamRuntime::queue_native(Stream stream, const std::function<int()>&) {
  raise<DeviceError>("[device] {} has no streams that kernels from outside can be queued on",
                     stream.device.str());
}

Runtime& runtime(DeviceKind kind) {
  const auto registered = [&] {
    return table()[static_cast<size_t>(kind)].load(std::memory_order_acquire);
  };
  if (Runtime* r = registered()) return *r;
  (void)plugin(kind);
  if (Runtime* r = registered()) return *r;
  static std::array<NoRuntime, kDeviceKindCount> none{
      NoRuntime(DeviceKind::cpu), NoRuntime(DeviceKind::cuda), NoRuntime(DeviceKind::sim)};
  return none[static_cast<size_t>(kind)];
}

void register_runtime(DeviceKind kind, Runtime& runtime) {
  table()[static_cast<size_t>(kind)].store(&runtime, std::memory_order_release);
}

void withdraw_runtime(DeviceKind kind) {
  table()[static_cast<size_t>(kind)].store(nullptr, std::memory_order_release);
}

}  // namespace brim
