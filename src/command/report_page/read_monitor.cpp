#include "command/report_page/read_monitor.h"

#include "command/report_page/json_values.h"

namespace brim::command::page {
namespace {

constexpr double kSensorMiB = 1 << 20;

/// A value of a device's reading, and the chart that it belongs to.
struct GpuValue {
  const char *key, *chart, *label;
  double scale;
};
constexpr GpuValue kGpuValues[] = {
    {"utilisation", "load", " busy", 100},
    {"sm_active", "load", " SMs", 100},
    {"tensor_active", "load", " tensor units", 100},
    {"memory_used", "sensor_memory", " used", 1 / kSensorMiB},
    {"power_w", "power", "", 1},
    {"temperature_c", "temperature", "", 1},
    {"sm_clock_mhz", "clock", "", 1},
};

}  // namespace

void read_monitor(const std::string& path, Run& run) {
  Point now;
  double before = 0, offset = 0;
  run.monitor = read_json_lines(path, [&](const nlohmann::json& line) {
    const std::optional<double> seconds = number_at(line, "seconds");
    if (!seconds || *seconds < 0) return;
    if (*seconds < before) offset += before;  // a resumed run counts from 0 again
    before = *seconds;
    now.seconds = offset + *seconds;
    run.charts.add("load", "CPU", now, find(line, "host/load"), 100);
    run.charts.add("cores", "", now, find(line, "host/process_cores"));
    run.charts.add("sensor_memory", "host", now, find(line, "host/resident"), 1 / kSensorMiB);
    for (const auto& [name, reading] : line.items()) {
      if (name == "host" || !reading.is_object()) continue;
      for (const GpuValue& value : kGpuValues)
        run.charts.add(value.chart, label_of(name) + value.label, now, find(reading, value.key),
                       value.scale);
    }
  });
}

}  // namespace brim::command::page
