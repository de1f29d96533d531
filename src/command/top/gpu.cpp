#include "command/top/gpu.h"

#include "command/monitor_report.h"

namespace brim::top {
namespace {

constexpr size_t kMaxGpus = 64, kMaxReasons = 16, kMaxProcesses = 256;

diag::GpuReading reading_from_json(const Json& r) {
  diag::GpuReading reading{.utilisation = number(r, "utilisation"),
                           .sm_active = number(r, "sm_active"),
                           .tensor_active = number(r, "tensor_active"),
                           .memory_bandwidth = number(r, "memory_bandwidth"),
                           .memory_used = integer(r, "memory_used"),
                           .memory_total = integer(r, "memory_total"),
                           .temperature = number(r, "temperature_c"),
                           .power = number(r, "power_w"),
                           .power_limit = number(r, "power_limit_w"),
                           .fan = number(r, "fan"),
                           .pcie_in = number(r, "pcie_in"),
                           .pcie_out = number(r, "pcie_out"),
                           .nvlink_in = number(r, "nvlink_in"),
                           .nvlink_out = number(r, "nvlink_out"),
                           .ecc_corrected = integer(r, "ecc_corrected"),
                           .ecc_uncorrected = integer(r, "ecc_uncorrected"),
                           .sm_clock = number(r, "sm_clock_mhz"),
                           .memory_clock = number(r, "memory_clock_mhz"),
                           .max_sm_clock = number(r, "max_sm_clock_mhz"),
                           .energy = number(r, "energy_j"),
                           .throttled = is_true(r, "throttled"),
                           .error = text(r, "error")};
  const Json& reasons = member(r, "clocks_held_by");
  if (!reasons.is_array()) return reading;
  for (const Json& reason : reasons)
    if (reason.is_string() && reading.clocks_held_by.size() < kMaxReasons)
      reading.clocks_held_by.push_back(reason.get<std::string>().substr(0, 64));
  return reading;
}

}  // namespace

Json to_json(const Gpu& gpu) {
  Json processes = Json::array();
  for (const diag::GpuProcess& p : gpu.processes)
    processes.push_back(
        {{"pid", p.pid}, {"memory", known(p.memory)}, {"utilisation", known(p.utilisation)}});
  Json object = {
      {"device", gpu.device}, {"uuid", gpu.uuid}, {"age", gpu.age}, {"answers", gpu.answers}};
  object.update(command::reading_json(gpu.reading));
  object["processes"] = processes;
  return object;
}

Gpu gpu_from_json(const Json& object) {
  Gpu gpu{.device = text(object, "device"),
          .uuid = text(object, "uuid"),
          .reading = reading_from_json(object),
          .age = number(object, "age").value_or(0),
          .answers = member(object, "answers") != false};
  for (const Json* p : objects(member(object, "processes"), kMaxProcesses))
    gpu.processes.push_back({.pid = integer(*p, "pid").value_or(0),
                             .memory = integer(*p, "memory"),
                             .utilisation = number(*p, "utilisation")});
  return gpu;
}

std::vector<Gpu> gpus_by_name(const Json& object) {
  std::vector<Gpu> gpus;
  if (!object.is_object()) return gpus;
  for (const auto& [name, reading] : object.items())
    if (gpus.size() < kMaxGpus)
      gpus.push_back({.device = name.substr(0, 64), .reading = reading_from_json(reading)});
  return gpus;
}

Json by_name(const std::vector<Gpu>& gpus) {
  Json object = Json::object();
  for (const Gpu& gpu : gpus) object[gpu.device] = command::reading_json(gpu.reading);
  return object;
}

}  // namespace brim::top
