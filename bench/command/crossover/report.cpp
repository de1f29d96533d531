// Table, JSON and drawing of `brim bench crossover`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/command/crossover/crossover.h"
#include "command/libraries.h"
#include "command/report_page/html.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kCellWidth = 92, kCellHeight = 44, kLeftOfGrid = 64, kAboveGrid = 84;
constexpr double kGridGap = 40;

std::string full_name(const CrossoverDevice& d) {
  return d.name + (d.is_simulated ? " (simulated)" : "");
}

/// Orange where the CPU is faster, blue where the device is; white where they are alike.
std::string gain_color(double gain) {
  const double share = std::clamp(std::log10(std::max(gain, 1e-9)), -1.5, 1.5) / 1.5;
  const auto mixed = [&](int full) {
    return static_cast<int>(std::lround(255 + (full - 255) * std::fabs(share)));
  };
  return share >= 0 ? fmt::format("#{:02x}{:02x}{:02x}", mixed(80), mixed(140), mixed(210))
                    : fmt::format("#{:02x}{:02x}{:02x}", mixed(235), mixed(130), mixed(50));
}

/// The sizes that steps have, in rising order.
std::vector<int64_t> sizes_of(const CrossoverDevice& device, int64_t CrossoverStep::*size) {
  std::set<int64_t> all;
  for (const CrossoverStep& s : device.steps) all.insert(s.*size);
  return {all.begin(), all.end()};
}

std::string gain_text(double gain) {
  return gain >= 9.95 ? fmt::format("{:.0f}", gain) : fmt::format("{:.2g}", gain);
}

/// The least size from which on, as far as was tried, the device is always faster.
std::string pays_from(const CrossoverDevice& device, int64_t CrossoverStep::*fixed, int64_t value,
                      int64_t CrossoverStep::*size) {
  int64_t from = 0;
  for (const int64_t tried : sizes_of(device, size)) {
    const auto step = std::ranges::find_if(device.steps, [&](const CrossoverStep& s) {
      return s.*fixed == value && s.*size == tried;
    });
    if (step->gain() <= 1)
      from = 0;
    else if (from == 0)
      from = tried;
  }
  return from == 0 ? "not up to the largest one" : fmt::format("from {} on", from);
}

}  // namespace

std::vector<std::string> crossover_table(const CrossoverDevice& device) {
  std::vector<std::string> lines = {
      full_name(device),
      fmt::format("{:>7} {:>7} {:>12} {:>12} {:>8}   {:>10} {:>10} {:>10}   {}", "width", "batch",
                  "CPU ms", "device ms", "gain", "copies", "launches", "compute", "decides")};
  for (const CrossoverStep& s : device.steps)
    lines.push_back(
        fmt::format("{:>7} {:>7} {:>12.4f} {:>12.4f} {:>8}   {:>10.4f} {:>10.4f} {:>10.4f}   {}",
                    s.width, s.batch, 1e3 * s.cpu, 1e3 * s.step, gain_text(s.gain()), 1e3 * s.copy,
                    1e3 * s.launch, 1e3 * s.compute, s.decides()));
  return lines;
}

std::vector<std::string> crossover_summary(const CrossoverDevice& device) {
  std::vector<std::string> lines = {fmt::format("{} pays", full_name(device))};
  for (const int64_t batch : sizes_of(device, &CrossoverStep::batch))
    lines.push_back(
        fmt::format("  at batch {}: width {}", batch,
                    pays_from(device, &CrossoverStep::batch, batch, &CrossoverStep::width)));
  for (const int64_t width : sizes_of(device, &CrossoverStep::width))
    lines.push_back(
        fmt::format("  at width {}: batch {}", width,
                    pays_from(device, &CrossoverStep::width, width, &CrossoverStep::batch)));
  return lines;
}

Json crossover_json(const std::vector<CrossoverDevice>& devices,
                    const CrossoverArguments& arguments) {
  Json json = {{"case", "crossover"},
               {"network", "tutorial-cnn, its first convolution `width` channels wide"},
               {"mode", arguments.mode},
               {"devices", Json::array()}};
  for (const CrossoverDevice& device : devices) {
    Json steps = Json::array();
    for (const CrossoverStep& s : device.steps)
      steps.push_back({{"width", s.width},
                       {"batch", s.batch},
                       {"cpu_s", s.cpu},
                       {"step_s", s.step},
                       {"gain", s.gain()},
                       {"copy_s", s.copy},
                       {"launch_s", s.launch},
                       {"compute_s", s.compute},
                       {"decides", s.decides()}});
    json["devices"].push_back(
        {{"name", device.name}, {"simulated", device.is_simulated}, {"steps", steps}});
  }
  json["versions"] = build_versions();
  return json;
}

std::string crossover_svg(const std::vector<CrossoverDevice>& devices, const std::string& mode) {
  const auto columns = static_cast<double>(sizes_of(devices[0], &CrossoverStep::width).size());
  const auto rows = static_cast<double>(sizes_of(devices[0], &CrossoverStep::batch).size());
  const double grid = kLeftOfGrid + columns * kCellWidth + kGridGap;
  const double width = grid * static_cast<double>(devices.size());
  const double height = kAboveGrid + rows * kCellHeight + 34;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n"
      "<text x=\"14\" y=\"22\" font-size=\"15\">times as fast as this CPU, {2} steps: blue where "
      "the device pays, and what decides</text>\n",
      width, height, page::escaped_for_html(mode));
  for (size_t d = 0; d < devices.size(); ++d) {
    const CrossoverDevice& device = devices[d];
    const std::vector<int64_t> widths = sizes_of(device, &CrossoverStep::width);
    const std::vector<int64_t> batches = sizes_of(device, &CrossoverStep::batch);
    const double left = static_cast<double>(d) * grid + kLeftOfGrid;
    svg += fmt::format(
        "<text x=\"{0:.0f}\" y=\"50\" font-weight=\"bold\">{1}</text>"
        "<text x=\"{0:.0f}\" y=\"{2:.0f}\">width of the first convolution</text>"
        "<text x=\"{3:.0f}\" y=\"{4:.0f}\" text-anchor=\"end\">batch</text>\n",
        left, page::escaped_for_html(full_name(device)), height - 10, left - 8, kAboveGrid - 8);
    for (const CrossoverStep& s : device.steps) {
      const auto column = std::ranges::find(widths, s.width) - widths.begin();
      const auto row = std::ranges::find(batches, s.batch) - batches.begin();
      const double x = left + static_cast<double>(column) * kCellWidth;
      const double y = kAboveGrid + static_cast<double>(row) * kCellHeight;
      svg += fmt::format(
          "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2}\" height=\"{3}\" fill=\"{4}\" "
          "stroke=\"#ffffff\"><title>{5:.4f} ms, CPU {6:.4f} ms</title></rect>"
          "<text x=\"{7:.0f}\" y=\"{8:.0f}\" text-anchor=\"middle\">{9}</text>"
          "<text x=\"{7:.0f}\" y=\"{10:.0f}\" text-anchor=\"middle\" "
          "font-size=\"10\">{11}</text>\n",
          x, y, kCellWidth, kCellHeight, gain_color(s.gain()), 1e3 * s.step, 1e3 * s.cpu,
          x + kCellWidth / 2, y + 20, gain_text(s.gain()), y + 35, s.decides());
      if (row == 0)
        svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
                           x + kCellWidth / 2, kAboveGrid - 8, s.width);
      if (column == 0)
        svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n",
                           left - 8, y + 27, s.batch);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace brim::command
