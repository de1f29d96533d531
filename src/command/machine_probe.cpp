// What `brim env --check` asks of this machine (machine_check.h).
#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "backend/cpu/runtime/isa.h"
#include "command/device_option.h"
#include "command/machine_check.h"
#include "core/runtime.h"

namespace brim::command {
namespace {

/// "" where the sum of a product is right, as it is in every dtype: 32 x 32 sums of 32 ones.
std::string try_product(Device device, DType dtype) {
  constexpr int64_t kSide = 32;
  try {
    const NoGrad no_gradients;
    const Tensor ones_there = ones({kSide, kSide}, {.device = device}).to(dtype);
    const double total = sum(matmul(ones_there, ones_there).to(f32)).item();
    if (total == kSide * kSide * kSide) return "";
    return fmt::format(
        "the sum of a product is {}, not {}; the device computes wrongly: try another one", total,
        kSide * kSide * kSide);
  } catch (const Error& e) {
    return e.what();
  }
}

DeviceFacts facts_of(const diag::GpuProbe& gpu, Device device, DType dtype) {
  DeviceFacts facts;
  try {
    Runtime& r = runtime(device.kind);
    facts.description = r.description(device.index);
    facts.memory = r.memory(device.index);
    if (device.kind == DeviceKind::cuda && gpu.build.compute_capability)
      facts.compute_capability = gpu.build.compute_capability(device.index);
    facts.error = try_product(device, dtype);
  } catch (const Error& e) {
    facts.error = e.what();
  }
  return facts;
}

int open_and_close(const std::string& path, int flags) {
  const int file = open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) return errno;
  close(file);
  return 0;
}

/// A file is made, filled with a page, synced and removed.
int write_a_page(const std::string& folder) {
  std::string name = folder + "/.brim-check-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) return errno;
  const char page[4096] = {};
  const bool is_written = write(file, page, sizeof page) == sizeof page && fsync(file) == 0;
  const int error = is_written ? 0 : errno != 0 ? errno : ENOSPC;
  close(file);
  unlink(name.c_str());
  return error;
}

int64_t free_bytes_of(const std::string& folder) {
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) return 0;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace

MachineProbe machine_probe() {
  MachineProbe probe;
  probe.gpu = diag::gpu_probe();
  probe.isa_error = cpu::isa_error();
  probe.devices = [](const std::string& asked) { return choose_devices(asked, "").devices; };
  probe.facts = [gpu = probe.gpu](Device device, DType dtype) {
    return facts_of(gpu, device, dtype);
  };
  probe.open_device = [](const std::string& path) { return open_and_close(path, O_RDWR); };
  probe.write_into = write_a_page;
  probe.read = [](const std::string& path) { return open_and_close(path, O_RDONLY); };
  probe.free_bytes = free_bytes_of;
  return probe;
}

}  // namespace brim::command
