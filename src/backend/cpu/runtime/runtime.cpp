// The CPU as a device: one of it, memory from the system, work done when the call returns.
#include "core/runtime.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <brim/core/threads.h>

#include "backend/cpu/runtime/isa.h"
#include "backend/cpu/runtime/parallel.h"
#include "core/check.h"

namespace brim {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
[[maybe_unused]] constexpr size_t kPart = 2 * kHugePage;  // that a thread touches at a time

using cpu::check_isa;

uintptr_t round_up(uintptr_t value, size_t to) { return (value + to - 1) / to * to; }

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
    return data;
  }
  /// By several threads, as kernels would. Linux 5.14 or newer.
  void touch([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) override {
#ifdef MADV_POPULATE_WRITE
    const auto from = reinterpret_cast<uintptr_t>(data) / page(0) * page(0);
    const auto until = reinterpret_cast<uintptr_t>(data) + bytes;
    const auto parts = static_cast<int64_t>((until - from + kPart - 1) / kPart);
    cpu::parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
      const uintptr_t first = from + static_cast<size_t>(begin) * kPart;
      const uintptr_t last = std::min(from + static_cast<size_t>(end) * kPart, until);
      madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE);
    });
#endif
  }
  void deallocate(int, void* data, size_t) noexcept override { std::free(data); }

  size_t page(int) override {
    static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return page;
  }
  void* reserve(int, size_t bytes) override {
    check_isa();
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return nullptr;
    void* at = mmap(nullptr, bytes + kHugePage, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    at = reinterpret_cast<void*>(round_up(reinterpret_cast<uintptr_t>(at), kHugePage));
    madvise(at, bytes, MADV_HUGEPAGE);  // a hint: failing is harmless
    return at;
  }
  bool commit(int, void* data, size_t bytes) override {
    // In whole huge pages: the system fills them when they are touched.
    const auto from = reinterpret_cast<uintptr_t>(data) / kHugePage * kHugePage;
    const auto until = round_up(reinterpret_cast<uintptr_t>(data) + bytes, kHugePage);
    return mprotect(reinterpret_cast<void*>(from), until - from, PROT_READ | PROT_WRITE) == 0;
  }
  bool decommit(int, void* data, size_t bytes) noexcept override {
    return madvise(data, bytes, MADV_DONTNEED) == 0;
  }

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
