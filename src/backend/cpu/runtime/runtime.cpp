// The CPU as a device: one of it, memory from the system, work done when the call returns.
#include "core/runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <brim/core/threads.h>

#include "backend/cpu/runtime/isa.h"
#include "core/check.h"
#include "diag/span.h"

namespace brim {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

using cpu::check_isa;

/// Has the system find pages for the memory now. Else it does so when they are first touched, which
/// nobody could tell from the kernel that touches them. Takes as long as that by itself; where it
/// fails (Linux before 5.14), that is what happens.
void populate([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  static const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  if (bytes / page > pages / 2) return;  // perhaps not all of it will ever be touched
  const auto begin = reinterpret_cast<uintptr_t>(data) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(data) + bytes;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
#endif
}

class CpuRuntime final : public Runtime {
 public:
  int device_count() const override { return 1; }

  std::string description(int) const override {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);)
      if (line.starts_with("model name"))
        return fmt::format("{}, {} thread(s)", line.substr(line.find(':') + 2), available_cpus());
    return fmt::format("CPU, {} thread(s)", available_cpus());
  }

  DeviceMemory memory(int) const override {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return {static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page,
            static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * page};
  }

  void* allocate(int, size_t bytes) override {
    check_isa();  // here, because nothing can be thrown when the library is loaded
    const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    void* data = nullptr;
    if (posix_memalign(&data, alignment, bytes) != 0) return nullptr;
    if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);  // a hint: failing is harmless
    if (diag::active_meter) populate(data, bytes);
    return data;
  }
  void deallocate(int, void* data, size_t) noexcept override { std::free(data); }

  void copy(void* to, Device, const void* from, Device, size_t bytes, Stream) override {
    if (bytes) std::memcpy(to, from, bytes);
  }

  Stream create_stream(int) override { return {Device::cpu(), ++streams_}; }
  void synchronize(Stream) override {}
  void synchronize(int) override {}
  std::shared_ptr<void> record(Stream, bool timed) override {
    return timed ? std::make_shared<Clock::time_point>(Clock::now()) : nullptr;
  }
  void wait(const std::shared_ptr<void>&, Stream) override {}
  bool query(const std::shared_ptr<void>&) override { return true; }
  void synchronize(const std::shared_ptr<void>&) override {}
  double elapsed_ms(const std::shared_ptr<void>& begin, const std::shared_ptr<void>& end) override {
    const auto at = [](const auto& e) { return *std::static_pointer_cast<Clock::time_point>(e); };
    return std::chrono::duration<double, std::milli>(at(end) - at(begin)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::atomic<int32_t> streams_{0};
};

const bool registered = [] {
  static CpuRuntime cpu;
  register_runtime(DeviceKind::cpu, cpu);
  return true;
}();

}  // namespace
}  // namespace brim
