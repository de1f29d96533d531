#include "command/run_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>

namespace brim::command {
namespace {

struct LabelledGpu {
  Exposition::Labels labels;
  diag::GpuReading reading;
};
using Gpus = std::vector<LabelledGpu>;

void add_gauge(Exposition& page, const char* name, const char* help, double value) {
  page.family(name, MetricKind::gauge, help);
  if (!std::isnan(value)) page.sample(value);
}
void add_counter(Exposition& page, const char* name, const char* help, double value) {
  page.family(name, MetricKind::counter, help);
  page.sample(value);
}

void add_progress(Exposition& page, const RunCounts& counts, std::optional<int64_t> point) {
  const train::RunStatus& status = counts.status;
  add_gauge(page, "brim_updated_timestamp_seconds", "When the training published last.",
            status.updated);
  add_gauge(page, "brim_epoch", "Epoch, from 0.", static_cast<double>(status.epoch));
  if (status.rounds > 0)
    add_gauge(page, "brim_pruning_round", "Of iterative pruning; 0: the dense training.",
              static_cast<double>(status.round));
  if (point)
    add_gauge(page, "brim_search_point", "Of brim shrink: the network that it is at, from 1.",
              static_cast<double>(*point));
  add_counter(page, "brim_steps_total", "Steps of this run.", static_cast<double>(counts.steps));
  add_counter(page, "brim_samples_total", "Samples of this run, by all ranks.",
              static_cast<double>(status.images));
  add_gauge(page, "brim_samples_per_second", "Since the report before.", status.images_per_s);
  add_gauge(page, "brim_remaining_seconds", "Until the last step.", status.seconds_left);
  add_gauge(page, "brim_loss", "Mean since the report before.", status.loss);
  add_gauge(page, "brim_learning_rate", "Of the next step.", status.learning_rate);
  add_counter(page, "brim_skipped_samples_total", "Corrupt samples left out or replaced.",
              static_cast<double>(status.skipped));
  add_counter(page, "brim_checkpoints_total", "Checkpoints written by this run.",
              static_cast<double>(status.checkpoints));
  add_counter(page, "brim_checkpoint_failures_total", "Checkpoints that could not be written.",
              static_cast<double>(status.checkpoint_failures));
  if (!status.validation) return;
  add_gauge(page, "brim_validation_loss", "Of the newest validation.", status.validation->loss);
  page.family("brim_validation_metric", MetricKind::gauge, "Metrics of the newest validation.");
  for (const train::Evaluation::Value& metric : status.validation->metrics)
    if (!std::isnan(metric.value)) page.sample(metric.value, {{"metric", metric.name}});
}

void add_loader(Exposition& page, const train::RunStatus& status) {
  if (status.slots == 0) return;
  add_gauge(page, "brim_loader_workers", "Threads that make batches.", status.workers);
  add_gauge(page, "brim_loader_slots", "Batches that the loader has memory for.", status.slots);
  add_gauge(page, "brim_loader_ready_batches", "Batches that are made and wait for the step.",
            static_cast<double>(status.ready_batches));
}

void add_memory_of(Exposition& page, const train::RunStatus& status) {
  const auto add_memory = [&](const char* name, const char* help, int64_t MemoryStats::*bytes) {
    page.family(name, MetricKind::gauge, help);
    for (const train::DeviceStatus& device : status.devices)
      page.sample(static_cast<double>(device.memory.*bytes), {{"device", device.device.str()}});
  };
  add_memory("brim_memory_live_bytes", "Held by tensors.", &MemoryStats::live);
  add_memory("brim_memory_cached_bytes", "Freed and kept for reuse.", &MemoryStats::cached);
  add_memory("brim_memory_peak_bytes", "The most that tensors held.", &MemoryStats::peak_live);
}

void add_host(Exposition& page, const diag::HostReading& host) {
  page.family("brim_host_cpu_load_ratio", MetricKind::gauge,
              "Share of its time that a CPU worked.");
  for (size_t i = 0; i < host.core_load.size(); ++i)
    page.sample(host.core_load[i], {{"cpu", std::to_string(i)}});
  add_gauge(page, "brim_process_cpu_cores",
            "CPU time of the training: 2 is two cores all the time.", host.process_cores);
  add_gauge(page, "brim_process_resident_bytes", "Memory of the training.",
            static_cast<double>(host.resident));
}

/// A sensor under the name that NVIDIA's dcgm-exporter has for it: up to release 4.8, and from 4.9
/// on, which took base units.
struct DcgmName {
  const char* name;
  const char* help;
  double unit;  // of the reading, in the name's
};

template <class Get>
void add_gpus(Exposition& page, const Gpus& gpus, MetricKind kind, const Get& get,
              const std::vector<DcgmName>& names) {
  for (const DcgmName& as : names) {
    page.family(as.name, kind, as.help);
    for (const LabelledGpu& gpu : gpus)
      if (const auto value = std::invoke(get, gpu.reading))
        page.sample(static_cast<double>(*value) * as.unit, gpu.labels);
  }
}

/// Under NVIDIA's names, which are of its GPUs alone.
void add_dcgm(Exposition& page, const RunDocument& run, const diag::Reading& sensors) {
  Gpus gpus;
  for (const auto& [device, reading] : sensors.gpus)
    if (device.kind == DeviceKind::cuda)
      gpus.push_back({{{"gpu", std::to_string(device.index)},
                       {"UUID", run.uuid_of(device)},
                       {"device", device.str()}},
                      reading});
  constexpr double kMiB = 1.0 / (1 << 20);
  using diag::GpuReading;
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::utilisation,
           {{"DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).", 100},
            {"DCGM_FI_DEV_GPU_UTIL_RATIO", "GPU utilization.", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::sm_active,
           {{"DCGM_FI_PROF_SM_ACTIVE", "Share of cycles with a warp on an SM.", 1},
            {"DCGM_FI_PROF_SM_UTIL_RATIO", "Share of cycles with a warp on an SM.", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::tensor_active,
           {{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Share of cycles with a busy tensor pipe.", 1},
            {"DCGM_FI_PROF_TENSOR_UTIL_RATIO", "Share of cycles with a busy tensor pipe.", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::memory_used,
           {{"DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).", kMiB},
            {"DCGM_FI_DEV_FB_USED_BYTES", "Framebuffer memory used.", 1}});
  add_gpus(page, gpus, MetricKind::gauge,
           [](const GpuReading& r) -> std::optional<int64_t> {
             if (!r.memory_total || !r.memory_used) return {};
             return *r.memory_total - *r.memory_used;
           },
           {{"DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).", kMiB},
            {"DCGM_FI_DEV_FB_FREE_BYTES", "Framebuffer memory free.", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::memory_total,
           {{"DCGM_FI_DEV_FB_CAPACITY_BYTES", "Framebuffer memory.", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::temperature,
           {{"DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", 1},
            {"DCGM_FI_DEV_GPU_TEMP_CELSIUS", "GPU temperature.", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::power,
           {{"DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).", 1},
            {"DCGM_FI_DEV_BOARD_POWER_WATTS", "Power draw.", 1}});
  add_gpus(page, gpus, MetricKind::counter, &GpuReading::energy,
           {{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy since boot (in mJ).", 1000},
            {"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "Energy since boot.", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::sm_clock,
           {{"DCGM_FI_DEV_SM_CLOCK", "SM clock frequency (in MHz).", 1},
            {"DCGM_FI_DEV_SM_CLOCK_HERTZ", "SM clock frequency.", 1e6}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::memory_clock,
           {{"DCGM_FI_DEV_MEM_CLOCK", "Memory clock frequency (in MHz).", 1},
            {"DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", "Memory clock frequency.", 1e6}});
  add_gpus(
      page, gpus, MetricKind::gauge, &GpuReading::memory_bandwidth,
      {{"DCGM_FI_PROF_DRAM_ACTIVE", "Share of cycles in which memory sent or received.", 1},
       {"DCGM_FI_PROF_DRAM_UTIL_RATIO", "Share of cycles in which memory sent or received.", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::pcie_out,
           {{"DCGM_FI_PROF_PCIE_TX_BYTES", "PCIe traffic from the GPU (in bytes a second).", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::pcie_in,
           {{"DCGM_FI_PROF_PCIE_RX_BYTES", "PCIe traffic to the GPU (in bytes a second).", 1}});
  add_gpus(
      page, gpus, MetricKind::gauge, &GpuReading::nvlink_out,
      {{"DCGM_FI_PROF_NVLINK_TX_BYTES", "NVLink traffic from the GPU (in bytes a second).", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::nvlink_in,
           {{"DCGM_FI_PROF_NVLINK_RX_BYTES", "NVLink traffic to the GPU (in bytes a second).", 1}});
  add_gpus(page, gpus, MetricKind::gauge, &GpuReading::fan,
           {{"DCGM_FI_DEV_FAN_SPEED", "Fan speed (in %).", 100},
            {"DCGM_FI_DEV_FAN_SPEED_RATIO", "Fan speed.", 1}});
  add_gpus(page, gpus, MetricKind::counter, &GpuReading::ecc_corrected,
           {{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Corrected errors of memory since boot.", 1}});
  add_gpus(page, gpus, MetricKind::counter, &GpuReading::ecc_uncorrected,
           {{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Uncorrected errors of memory since boot.", 1}});
}

/// Of all devices with such sensors, the CPUs and virtual accelerators included.
void add_power_and_heat(Exposition& page, const diag::Reading& sensors) {
  const auto add = [&](const char* name, MetricKind kind, const char* help,
                       const std::optional<double>& of_cpu,
                       std::optional<double> diag::GpuReading::*sensor) {
    page.family(name, kind, help);
    if (of_cpu) page.sample(*of_cpu, {{"device", "cpu"}});
    for (const auto& [device, gpu] : sensors.gpus)
      if (const auto value = gpu.*sensor; value && std::isfinite(*value))
        page.sample(*value, {{"device", device.str()}});
  };
  add("brim_device_energy_joules_total", MetricKind::counter,
      "Energy by the device's own counter, from whenever that began.", sensors.host.energy,
      &diag::GpuReading::energy);
  add("brim_device_power_watts", MetricKind::gauge, "Power draw.", {}, &diag::GpuReading::power);
  add("brim_device_temperature_celsius", MetricKind::gauge, "Temperature.", {},
      &diag::GpuReading::temperature);
  page.family("brim_gpu_throttled", MetricKind::gauge,
              "Whether heat, power or a fault hold clocks down.");
  for (const auto& [device, gpu] : sensors.gpus)
    if (gpu.error.empty()) page.sample(gpu.throttled, {{"device", device.str()}});
}

}  // namespace

void RunMetrics::add_accounts(Exposition& page, const train::RunStatus& status) {
  page.family("brim_device_seconds_total", MetricKind::counter,
              "Where the time of the training went; the causes add up to it.");
  for (const train::DeviceStatus& device : status.devices)
    for (size_t i = 0; i < diag::kCauseCount; ++i) {
      const std::string cause(diag::name(static_cast<diag::Cause>(i)));
      double& told = told_[{device.device.str(), cause}];
      told = std::max(told, device.account.seconds[i]);
      if (told > 0) page.sample(told, {{"device", device.device.str()}, {"cause", cause}});
    }
}

std::string RunMetrics::page(MetricsFormat format) {
  const RunIdentity& identity = run_.identity();
  Exposition page(format,
                  {{"recipe", identity.recipe.name}, {"rank", std::to_string(identity.rank)}});
  const RunCounts counts = run_.counts();
  const train::RunStatus& status = counts.status;
  page.family("brim_run_state", MetricKind::gauge, "1 for the state that the run is in.");
  page.sample(1, {{"state", state_word(status.phase)}});
  add_progress(page, counts, run_.point());
  add_loader(page, status);
  add_accounts(page, status);
  add_memory_of(page, status);
  if (const std::optional<diag::Reading> sensors = run_.reading()) {
    add_host(page, sensors->host);
    add_dcgm(page, run_, *sensors);
    add_power_and_heat(page, *sensors);
  }
  return page.finish();
}

}  // namespace brim::command
