#include "command/monitor_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGiB = 1 << 30;

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

double rounded(double value) { return std::round(value * 1e4) / 1e4; }
Json share(const std::optional<double>& value) {
  return value ? Json(rounded(*value)) : Json(nullptr);
}

}  // namespace

Json reading_json(const diag::GpuReading& r) {
  if (!r.error.empty()) return {{"error", r.error}};
  return {{"utilisation", share(r.utilisation)},
          {"sm_active", share(r.sm_active)},
          {"tensor_active", share(r.tensor_active)},
          {"memory_bandwidth", share(r.memory_bandwidth)},
          {"memory_used", known(r.memory_used)},
          {"memory_total", known(r.memory_total)},
          {"temperature_c", known(r.temperature)},
          {"power_w", known(r.power)},
          {"power_limit_w", known(r.power_limit)},
          {"fan", share(r.fan)},
          {"energy_j", known(r.energy)},
          {"sm_clock_mhz", known(r.sm_clock)},
          {"max_sm_clock_mhz", known(r.max_sm_clock)},
          {"memory_clock_mhz", known(r.memory_clock)},
          {"pcie_in", known(r.pcie_in)},
          {"pcie_out", known(r.pcie_out)},
          {"nvlink_in", known(r.nvlink_in)},
          {"nvlink_out", known(r.nvlink_out)},
          {"ecc_corrected", known(r.ecc_corrected)},
          {"ecc_uncorrected", known(r.ecc_uncorrected)},
          {"clocks_held_by", r.clocks_held_by},
          {"throttled", r.throttled}};
}

Json reading_json(const diag::HostReading& r) {
  Json cores = Json::array();
  for (const double load : r.core_load) cores.push_back(rounded(load));
  return {{"load", rounded(r.mean_load())},
          {"core_load", cores},
          {"process_cores", rounded(r.process_cores)},
          {"resident", r.resident},
          {"energy_j", known(r.energy)}};
}

Json reading_json(const diag::Reading& r) {
  Json json = {{"seconds", rounded(r.seconds)}, {"host", reading_json(r.host)}};
  for (const auto& [device, gpu] : r.gpus) json[device.str()] = reading_json(gpu);
  return json;
}

std::vector<std::string> sensor_lines(const diag::MonitorSummary& summary) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < summary.mean.gpus.size(); ++i) {
    const auto& [device, r] = summary.mean.gpus[i];
    std::vector<std::string> parts;
    if (r.utilisation) parts.push_back(fmt::format("busy {:.0f} %", *r.utilisation * 100));
    if (r.sm_active) parts.push_back(fmt::format("SMs {:.0f} %", *r.sm_active * 100));
    if (r.tensor_active)
      parts.push_back(fmt::format("tensor units {:.0f} %", *r.tensor_active * 100));
    if (r.memory_used && r.memory_total)
      parts.push_back(fmt::format("{:.1f} of {:.1f} GiB",
                                  static_cast<double>(*r.memory_used) / kGiB,
                                  static_cast<double>(*r.memory_total) / kGiB));
    if (r.power && r.power_limit)
      parts.push_back(fmt::format("{:.0f} of {:.0f} W", *r.power, *r.power_limit));
    if (r.temperature) parts.push_back(fmt::format("{:.0f} C", *r.temperature));
    if (r.sm_clock) parts.push_back(fmt::format("{:.0f} MHz", *r.sm_clock));
    if (r.throttled)
      parts.push_back(fmt::format("throttled {:.0f} % of the time ({})",
                                  summary.throttled_share[i] * 100,
                                  fmt::join(r.clocks_held_by, ", ")));
    if (!parts.empty())
      lines.push_back(fmt::format("{}: {}", device.str(), fmt::join(parts, ", ")));
  }
  return lines;
}

std::vector<std::pair<std::string, double>> mean_watts(const diag::MonitorSummary& summary) {
  std::vector<std::pair<std::string, double>> watts;
  const auto add = [&](const std::string& name, const std::optional<double>& energy,
                       const std::optional<double>& power) {
    if (energy && summary.stretch > 0)
      watts.emplace_back(name, *energy / summary.stretch);
    else if (power)
      watts.emplace_back(name, *power);
  };
  add("cpu", summary.mean.host.energy, {});
  for (const auto& [device, gpu] : summary.mean.gpus) add(device.str(), gpu.energy, gpu.power);
  return watts;
}

Json to_json(const diag::MonitorSummary& summary) {
  Json json = reading_json(summary.mean);
  for (size_t i = 0; i < summary.mean.gpus.size(); ++i) {
    Json& gpu = json[summary.mean.gpus[i].first.str()];
    if (!gpu.contains("error")) gpu["throttled_share"] = rounded(summary.throttled_share[i]);
  }
  json["readings"] = summary.readings;
  json["stretch_s"] = rounded(summary.stretch);
  return json;
}

}  // namespace brim::command
