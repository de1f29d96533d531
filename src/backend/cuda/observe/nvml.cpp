// The sensors of CUDA devices, by NVML. CUDA numbers the devices that a process sees
// (CUDA_VISIBLE_DEVICES), NVML those of the machine, so a device is found by its PCI bus id.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <fmt/core.h>
#include "backend/cuda/observe/nvml_api.h"
#include "backend/cuda/runtime/runtime.h"
#include "core/cuda_libraries.h"
#include "diag/gpu_sensor.h"

namespace brim::cuda {
namespace {

constexpr const char* kLibrary = "libnvidia-ml.so.1";
constexpr unsigned kMost = 1 << 16;  // of what NVML lists

/// What is null is not in this driver's NVML.
struct Nvml {
  void* handle = open_cuda_library(kLibrary).handle;
  template <class F>
  F* find(const char* name) {
    return handle ? reinterpret_cast<F*>(dlsym(handle, name)) : nullptr;
  }
  nvml::Init* init = find<nvml::Init>("nvmlInit_v2");
  nvml::ErrorString* text = find<nvml::ErrorString>("nvmlErrorString");
  nvml::HandleByPciBusId* by_bus_id =
      find<nvml::HandleByPciBusId>("nvmlDeviceGetHandleByPciBusId_v2");
  nvml::GetUtilization* utilization = find<nvml::GetUtilization>("nvmlDeviceGetUtilizationRates");
  nvml::GetMemory* memory = find<nvml::GetMemory>("nvmlDeviceGetMemoryInfo");
  nvml::GetTemperature* temperature = find<nvml::GetTemperature>("nvmlDeviceGetTemperature");
  nvml::GetPower* power = find<nvml::GetPower>("nvmlDeviceGetPowerUsage");
  nvml::GetPower* power_limit = find<nvml::GetPower>("nvmlDeviceGetEnforcedPowerLimit");
  nvml::GetEnergy* energy = find<nvml::GetEnergy>("nvmlDeviceGetTotalEnergyConsumption");
  nvml::GetPower* fan = find<nvml::GetPower>("nvmlDeviceGetFanSpeed");
  nvml::GetPcie* pcie = find<nvml::GetPcie>("nvmlDeviceGetPcieThroughput");
  nvml::GetEcc* ecc = find<nvml::GetEcc>("nvmlDeviceGetTotalEccErrors");
  nvml::GetProcesses* processes =
      find<nvml::GetProcesses>("nvmlDeviceGetComputeRunningProcesses_v3");
  nvml::GetProcessLoads* process_loads =
      find<nvml::GetProcessLoads>("nvmlDeviceGetProcessUtilization");
  nvml::GetClock* clock = find<nvml::GetClock>("nvmlDeviceGetClockInfo");
  nvml::GetClock* max_clock = find<nvml::GetClock>("nvmlDeviceGetMaxClockInfo");
  nvml::GetReasons* reasons = find<nvml::GetReasons>("nvmlDeviceGetCurrentClocksEventReasons");
  nvml::GpmQuerySupport* gpm_support = find<nvml::GpmQuerySupport>("nvmlGpmQueryDeviceSupport");
  nvml::GpmAlloc* gpm_alloc = find<nvml::GpmAlloc>("nvmlGpmSampleAlloc");
  nvml::GpmGet* gpm_get = find<nvml::GpmGet>("nvmlGpmSampleGet");
  nvml::GpmMetrics* gpm_metrics = find<nvml::GpmMetrics>("nvmlGpmMetricsGet");
};

std::string words_for(const Nvml& n, nvml::Return result) {
  const char* const text = n.text ? n.text(result) : nullptr;
  return text ? text : "error " + std::to_string(result);
}

class NvmlSensor final : public diag::GpuSensor {
 public:
  diag::GpuReading read(int device) override;
  std::string uuid(int device) override;
  std::vector<diag::GpuProcess> processes(int device) override;

 private:
  struct Opened {
    std::mutex mutex;  // a card whose driver hangs holds up no other
    bool opened = false;
    nvml::Handle handle = nullptr;
    std::string error;
    nvml::Sample before = nullptr, now = nullptr;  // of GPM; null where there is none
    bool sampled = false;                          // `before` holds something
    unsigned long long loads_until = 0;            // the newest load of a process that was told
    std::unique_ptr<nvml::GpmMetricsGet> metrics = std::make_unique<nvml::GpmMetricsGet>();
  };
  Opened& card(int device);
  void open(Opened& gpu, int device) const;
  void read_gpm(Opened& gpu, diag::GpuReading& reading);
  void read_loads(Opened& gpu, std::vector<diag::GpuProcess>& processes);

  std::mutex mutex_;          // of what follows, which is constant once NVML is open
  std::optional<Nvml> nvml_;  // opened when the first device is read
  std::string error_;         // of NVML as a whole
  std::map<int, Opened> devices_;
};

NvmlSensor::Opened& NvmlSensor::card(int device) {
  const std::lock_guard lock(mutex_);
  if (!nvml_) {
    nvml_.emplace();
    if (!nvml_->handle)
      error_ = fmt::format("{} was not found; it comes with the driver", kLibrary);
    else if (!nvml_->init || !nvml_->by_bus_id)
      error_ = fmt::format("{} is too old", kLibrary);
    else if (const nvml::Return r = nvml_->init(); r != nvml::kSuccess)
      error_ = "nvmlInit says " + words_for(*nvml_, r);
  }
  return devices_[device];
}

/// With the card's mutex.
void NvmlSensor::open(Opened& gpu, int device) const {
  if (std::exchange(gpu.opened, true)) return;
  gpu.error = error_;
  if (!gpu.error.empty()) return;
  std::array<char, 32> bus_id{};
  if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    gpu.error = "CUDA does not tell the device's PCI bus id";
    return;
  }
  if (const nvml::Return r = nvml_->by_bus_id(bus_id.data(), &gpu.handle); r != nvml::kSuccess) {
    gpu.error = "NVML does not show the device at " + std::string(bus_id.data()) + ": " +
                words_for(*nvml_, r);
    return;
  }
  nvml::GpmSupport support{.version = nvml::kGpmVersion, .is_supported = 0};
  if (nvml_->gpm_support && nvml_->gpm_alloc && nvml_->gpm_get && nvml_->gpm_metrics &&
      nvml_->gpm_support(gpu.handle, &support) == nvml::kSuccess && support.is_supported &&
      (nvml_->gpm_alloc(&gpu.before) != nvml::kSuccess ||
       nvml_->gpm_alloc(&gpu.now) != nvml::kSuccess))
    gpu.before = gpu.now = nullptr;
}

/// A value of GPM, in a reading's unit.
struct GpmValue {
  unsigned id;
  std::optional<double> diag::GpuReading::*to;
  double unit;
};
constexpr double kPercent = 0.01, kMiB = 1 << 20;
constexpr GpmValue kGpmValues[] = {
    {nvml::kGpmSmUtil, &diag::GpuReading::sm_active, kPercent},
    {nvml::kGpmAnyTensorUtil, &diag::GpuReading::tensor_active, kPercent},
    {nvml::kGpmMemoryUtil, &diag::GpuReading::memory_bandwidth, kPercent},
    {nvml::kGpmPcieIn, &diag::GpuReading::pcie_in, kMiB},
    {nvml::kGpmPcieOut, &diag::GpuReading::pcie_out, kMiB},
    {nvml::kGpmNvlinkIn, &diag::GpuReading::nvlink_in, kMiB},
    {nvml::kGpmNvlinkOut, &diag::GpuReading::nvlink_out, kMiB},
};

/// GPM's values are of the time between two samples.
void NvmlSensor::read_gpm(Opened& gpu, diag::GpuReading& reading) {
  if (!gpu.now || nvml_->gpm_get(gpu.handle, gpu.now) != nvml::kSuccess) return;
  if (gpu.sampled) {
    nvml::GpmMetricsGet& get = *gpu.metrics;
    get = {.version = nvml::kGpmVersion,
           .count = static_cast<unsigned>(std::size(kGpmValues)),
           .sample1 = gpu.before,
           .sample2 = gpu.now,
           .metrics = {}};
    for (size_t i = 0; i < std::size(kGpmValues); ++i) get.metrics[i].id = kGpmValues[i].id;
    if (nvml_->gpm_metrics(&get) == nvml::kSuccess)
      for (size_t i = 0; i < std::size(kGpmValues); ++i)
        if (const nvml::GpmMetric& m = get.metrics[i];
            m.result == nvml::kSuccess && std::isfinite(m.value))
          reading.*kGpmValues[i].to = m.value * kGpmValues[i].unit;
  }
  std::swap(gpu.before, gpu.now);
  gpu.sampled = true;
}

diag::GpuReading NvmlSensor::read(int device) {
  Opened& gpu = card(device);
  const std::lock_guard lock(gpu.mutex);
  open(gpu, device);
  diag::GpuReading r;
  r.error = gpu.error;
  if (!r.error.empty()) return r;
  const nvml::Handle h = gpu.handle;
  /// What a sensor's function says, as a number of another unit; empty if it has no such sensor.
  const auto ask = [&](auto* function, double unit, auto... which) -> std::optional<double> {
    unsigned value = 0;
    if (!function || function(h, which..., &value) != nvml::kSuccess) return {};
    return value * unit;
  };
  if (nvml::Utilization u{}; nvml_->utilization && nvml_->utilization(h, &u) == nvml::kSuccess)
    r.utilisation = u.gpu / 100.0;
  if (nvml::Memory m{}; nvml_->memory && nvml_->memory(h, &m) == nvml::kSuccess) {
    r.memory_used = static_cast<int64_t>(m.used);
    r.memory_total = static_cast<int64_t>(m.total);
  }
  r.temperature = ask(nvml_->temperature, 1, nvml::kTemperatureGpu);
  r.power = ask(nvml_->power, 1e-3);
  r.power_limit = ask(nvml_->power_limit, 1e-3);
  if (unsigned long long energy = 0; nvml_->energy && nvml_->energy(h, &energy) == nvml::kSuccess)
    r.energy = static_cast<double>(energy) * 1e-3;
  r.sm_clock = ask(nvml_->clock, 1, nvml::kClockSm);
  r.memory_clock = ask(nvml_->clock, 1, nvml::kClockMemory);
  r.max_sm_clock = ask(nvml_->max_clock, 1, nvml::kClockSm);
  if (unsigned long long reasons = 0;
      nvml_->reasons && nvml_->reasons(h, &reasons) == nvml::kSuccess)
    for (const nvml::ClockReason& reason : nvml::kClockReasons)
      if (reasons & reason.bit) {
        r.clocks_held_by.emplace_back(reason.words);
        r.throttled |= reason.throttles;
      }
  r.fan = ask(nvml_->fan, kPercent);
  const auto count_errors = [&](int kind) -> std::optional<int64_t> {
    unsigned long long count = 0;
    if (!nvml_->ecc || nvml_->ecc(h, kind, nvml::kVolatileEcc, &count) != nvml::kSuccess) return {};
    return static_cast<int64_t>(count);
  };
  r.ecc_corrected = count_errors(nvml::kCorrected);
  r.ecc_uncorrected = count_errors(nvml::kUncorrected);
  read_gpm(gpu, r);
  if (!gpu.now) {  // each call looks for 20 ms, so only where GPM does not tell
    r.pcie_in = ask(nvml_->pcie, 1e3, nvml::kPcieIn);
    r.pcie_out = ask(nvml_->pcie, 1e3, nvml::kPcieOut);
  }
  return r;
}

std::string NvmlSensor::uuid(int device) { return uuid_of(device); }

/// What `ask` lists. It says how many there are where it has too little room.
template <class T, class F>
std::vector<T> list_of(const F& ask) {
  std::vector<T> list(64);
  for (int attempt = 0; attempt < 3; ++attempt) {  // more may come meanwhile
    auto count = static_cast<unsigned>(list.size());
    const nvml::Return result = ask(&count, list.data());
    if (result == nvml::kSuccess) {
      list.resize(std::min<size_t>(count, list.size()));
      return list;
    }
    if (result != nvml::kInsufficientSize || count > kMost) break;
    list.resize(std::max<size_t>(2 * size_t{count}, 2 * list.size()));
  }
  return {};
}

std::vector<diag::GpuProcess> NvmlSensor::processes(int device) {
  Opened& gpu = card(device);
  const std::lock_guard lock(gpu.mutex);
  open(gpu, device);
  if (!gpu.error.empty() || !nvml_->processes) return {};
  std::vector<diag::GpuProcess> processes;
  for (const nvml::Process& p : list_of<nvml::Process>([&](unsigned*count, nvml::Process*list) {
         return nvml_->processes(gpu.handle, count, list);
       })) {
    processes.push_back({.pid = p.pid,
                         .memory = p.memory == nvml::kNotKnown
                                       ? std::nullopt
                                       : std::optional(static_cast<int64_t>(p.memory))});
  }
  read_loads(gpu, processes);
  return processes;
}

/// The newest load of each since the call before.
void NvmlSensor::read_loads(Opened& gpu, std::vector<diag::GpuProcess>& processes) {
  if (processes.empty() || !nvml_->process_loads) return;
  std::vector<nvml::ProcessLoad> loads =
      list_of<nvml::ProcessLoad>([&](unsigned* count, nvml::ProcessLoad* list) {
        return nvml_->process_loads(gpu.handle, list, count, gpu.loads_until);
      });
  std::ranges::sort(loads, {}, &nvml::ProcessLoad::time);
  for (const nvml::ProcessLoad& load : loads) {
    const auto found = std::ranges::find(processes, int64_t{load.pid}, &diag::GpuProcess::pid);
    if (found != processes.end()) found->utilisation = load.sm * kPercent;
    gpu.loads_until = load.time;
  }
}

const bool registered = [] {
  static auto* sensor = new NvmlSensor;  // the driver may be gone before static objects are
  diag::set_gpu_sensor(DeviceKind::cuda, *sensor);
  return true;
}();

}  // namespace
}  // namespace brim::cuda
