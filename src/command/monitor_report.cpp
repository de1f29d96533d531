#include "command/monitor_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <optional>

#include "io/atomic_file.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;
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

Json reading_json(const diag::GpuReading& r) {
  if (!r.error.empty()) return {{"error", r.error}};
  return {{"utilisation", share(r.utilisation)},
          {"sm_active", share(r.sm_active)},
          {"tensor_active", share(r.tensor_active)},
          {"memory_used", known(r.memory_used)},
          {"memory_total", known(r.memory_total)},
          {"temperature_c", known(r.temperature)},
          {"power_w", known(r.power)},
          {"power_limit_w", known(r.power_limit)},
          {"sm_clock_mhz", known(r.sm_clock)},
          {"max_sm_clock_mhz", known(r.max_sm_clock)},
          {"memory_clock_mhz", known(r.memory_clock)},
          {"clocks_held_by", r.clocks_held_by},
          {"throttled", r.throttled}};
}

Json reading_json(const diag::Reading& r) {
  Json cores = Json::array();
  for (const double load : r.host.core_load) cores.push_back(rounded(load));
  Json json = {{"seconds", rounded(r.seconds)},
               {"host",
                {{"load", rounded(r.host.mean_load())},
                 {"core_load", cores},
                 {"process_cores", rounded(r.host.process_cores)},
                 {"resident", r.host.resident}}}};
  for (const auto& [device, gpu] : r.gpus) json[device.str()] = reading_json(gpu);
  return json;
}

}  // namespace

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

Json to_json(const diag::MonitorSummary& summary) {
  Json json = reading_json(summary.mean);
  for (size_t i = 0; i < summary.mean.gpus.size(); ++i) {
    Json& gpu = json[summary.mean.gpus[i].first.str()];
    if (!gpu.contains("error")) gpu["throttled_share"] = rounded(summary.throttled_share[i]);
  }
  json["readings"] = summary.readings;
  return json;
}

MonitorFile::MonitorFile(const std::string& folder) : folder_(folder) {
  std::error_code error;
  was_there_ = fs::exists(folder, error);
}

MonitorFile::~MonitorFile() {
  if (was_there_ || !out_) return;
  out_.reset();
  std::error_code error;
  const auto entries = std::distance(fs::directory_iterator(folder_, error), {});
  if (entries > 1 || error) return;
  fs::remove(fs::path(folder_) / train::kMonitorFile, error);
  fs::remove(folder_, error);
}

void MonitorFile::add(const diag::Reading& reading) {
  if (folder_.empty() || !error_.empty()) return;
  const std::string path = (fs::path(folder_) / train::kMonitorFile).string();
  if (!out_) out_ = open_stream(path, O_WRONLY | O_APPEND);
  Json json = {
      {"time",
       std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()}};
  json.update(reading_json(reading));
  const std::string line = json.dump() + '\n';
  if (!out_ || std::fwrite(line.data(), 1, line.size(), out_.get()) != line.size() ||
      std::fflush(out_.get()) != 0)
    error_ = fmt::format("{} cannot be written: {}; readings are not kept there", path,
                         io::error_text(errno));
}

}  // namespace brim::command
