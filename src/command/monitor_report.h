// What the sensors said, for people and for files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <brim/diag/monitor.h>

namespace brim::command {

/// One line for each device whose sensors can be read: "cuda:0: busy 97 % (SMs 83 %, ...".
std::vector<std::string> sensor_lines(const diag::MonitorSummary& summary);
/// What the CPUs ("cpu") and each other device drew, in watts: of their counters of energy, else of
/// the power that was read. Without those that have neither.
std::vector<std::pair<std::string, double>> mean_watts(const diag::MonitorSummary& summary);
/// The same numbers and the host's, by name; null where there is no such sensor.
nlohmann::ordered_json to_json(const diag::MonitorSummary& summary);

nlohmann::ordered_json reading_json(const diag::GpuReading& reading);
nlohmann::ordered_json reading_json(const diag::HostReading& reading);

/// As a line of train::kMonitorFile has it, but for the time.
nlohmann::ordered_json reading_json(const diag::Reading& reading);

}  // namespace brim::command
