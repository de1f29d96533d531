// Cores, memory, pressure, disks, networks and GPUs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "command/top/draw.h"

namespace brim::top {
namespace {

constexpr int kCoreColumns = 19,
              kClockColumns = 34;  // at least, for a core, and one with its clock

std::vector<BarPart> core_parts(const diag::CoreReading& core) {
  return {{core.user, Style::good, "\u2588", "#"},
          {core.system, Style::notice, "\u2593", "+"},
          {core.steal, Style::bad, "\u2592", "!"},
          {core.wait, Style::dim, "\u2591", "."}};
}

void draw_core(Canvas& canvas, int row, int column, int width, const diag::CoreReading& core) {
  Pen pen(canvas, row, column);
  pen.right(fmt::format("{}", core.index), 3, Style::dim);
  const bool with_clock = width >= kClockColumns;
  draw_bar(pen, canvas.unicode(), width - 10 - (with_clock ? 9 : 0), core_parts(core));
  pen.right(percent(core.busy()), 4, core.steal > 0.1 ? Style::bad : Style::plain);
  if (with_clock && core.mhz) pen.right(fmt::format("{:.0f} MHz", *core.mhz), 8, Style::dim);
}

/// A character a core.
int draw_many_cores(Canvas& canvas, int row, const std::vector<diag::CoreReading>& cores,
                    int max_rows) {
  const int columns = std::max(canvas.size().columns - kLabel - 5, 1);
  double sum = 0;
  for (const diag::CoreReading& core : cores) sum += core.busy();
  Pen(canvas, row).put("cores", Style::title);
  Pen(canvas, row, canvas.size().columns - 5)
      .right(percent(sum / static_cast<double>(cores.size())), 4);
  for (size_t i = 0; i < cores.size(); ++i) {
    const int line = static_cast<int>(i) / columns;
    if (line >= max_rows) break;
    const double busy = cores[i].busy();
    Pen(canvas, row + line, kLabel + static_cast<int>(i) % columns)
        .put(level(busy, canvas.unicode()), cores[i].steal > 0.1 ? Style::bad : Style::good);
  }
  return row + std::min(max_rows, (static_cast<int>(cores.size()) + columns - 1) / columns);
}

std::string of_limit(const std::optional<double>& value, const std::optional<double>& limit,
                     const char* unit) {
  if (!value) return "";
  return limit ? fmt::format("{:.0f}/{:.0f}{}", *value, *limit, unit)
               : fmt::format("{:.0f}{}", *value, unit);
}

void draw_gpu(Canvas& canvas, int row, const Gpu& gpu) {
  const diag::GpuReading& r = gpu.reading;
  Pen pen(canvas, row);
  pen.left(gpu.device, kLabel - 1, Style::title);
  if (!gpu.answers) {
    pen.put(fmt::format("does not answer for {:.0f} s", gpu.age), Style::bad);
    return;
  }
  if (!r.error.empty()) {
    pen.put(r.error, Style::bad);
    return;
  }
  draw_bar(pen, canvas.unicode(), canvas.size().columns >= 120 ? 22 : 8,
           {{r.utilisation.value_or(0), Style::good, "\u2588", "#"}});
  pen.right(r.utilisation ? percent(*r.utilisation) : "-", 4);
  if (r.sm_active) pen.put("sm ", Style::dim).left(percent(*r.sm_active), 4);
  if (r.tensor_active) pen.put("tensor ", Style::dim).left(percent(*r.tensor_active), 4);
  if (r.memory_used && r.memory_total) {
    const auto used = static_cast<double>(*r.memory_used);
    const auto total = static_cast<double>(*r.memory_total);
    pen.put(fmt::format("{}/{}", short_bytes(used), short_bytes(total)),
            total > 0 ? filling(used / total) : Style::plain)
        .gap(1);
  }
  if (r.power) pen.put(of_limit(r.power, r.power_limit, "W")).gap(1);
  if (r.temperature) pen.put(fmt::format("{:.0f}C", *r.temperature)).gap(1);
  if (r.sm_clock) pen.put(fmt::format("{:.0f}MHz", *r.sm_clock), Style::dim).gap(1);
  if (r.ecc_uncorrected.value_or(0) > 0)
    pen.put(fmt::format("{} memory errors", *r.ecc_uncorrected), Style::bad).gap(1);
  if (!r.clocks_held_by.empty())
    pen.put(fmt::format("{}", fmt::join(r.clocks_held_by, ", ")),
            r.throttled ? Style::bad : Style::dim);
}

/// What the first line has no room for; nothing where nothing of it is known.
std::vector<std::string> traffic_parts(const diag::GpuReading& r) {
  std::vector<std::string> parts;
  if (r.memory_bandwidth) parts.push_back("memory bandwidth " + percent(*r.memory_bandwidth));
  const auto add = [&](const char* name, const std::optional<double>& in,
                       const std::optional<double>& out) {
    if (in && out)
      parts.push_back(
          fmt::format("{} in {}/s out {}/s", name, short_bytes(*in), short_bytes(*out)));
  };
  add("PCIe", r.pcie_in, r.pcie_out);
  add("NVLink", r.nvlink_in, r.nvlink_out);
  if (r.fan) parts.push_back("fan " + percent(*r.fan));
  if (r.ecc_corrected.value_or(0) > 0)
    parts.push_back(fmt::format("{} corrected memory errors", *r.ecc_corrected));
  return parts;
}

}  // namespace

Style filling(double share) {
  return share > 0.95 ? Style::bad : share > 0.85 ? Style::notice : Style::plain;
}

int draw_cores(Canvas& canvas, int row, const Moment& moment, int max_rows) {
  const std::vector<diag::CoreReading>& cores = moment.machine.cores;
  if (cores.empty()) return row;
  const int count = static_cast<int>(cores.size());
  const int side_by_side = std::clamp(canvas.size().columns / kCoreColumns, 1, std::max(count, 1));
  if (count > side_by_side * max_rows) return draw_many_cores(canvas, row, cores, max_rows);
  const int rows = (count + side_by_side - 1) / side_by_side;
  const int columns = (count + rows - 1) / rows;  // as even as can be
  const int width = std::min(canvas.size().columns / columns, 60);
  for (int i = 0; i < count; ++i)
    draw_core(canvas, row + i / columns, i % columns * width, width, cores[static_cast<size_t>(i)]);
  return row + rows;
}

int draw_memory(Canvas& canvas, int row, const Moment& moment) {
  const diag::MemoryReading& m = moment.machine.memory;
  const diag::LimitReading& limits = moment.machine.limits;
  const auto total = static_cast<double>(m.total);
  const auto used = static_cast<double>(m.total - m.available);
  const double share = total > 0 ? used / total : 0;
  Pen pen(canvas, row);
  pen.left("memory", kLabel - 1, Style::title);
  draw_bar(pen, canvas.unicode(), 14,
           {{share, share > 0.95 ? Style::bad : Style::good, "\u2588", "#"}});
  pen.gap(1).put(fmt::format("{} of {}", short_bytes(used), short_bytes(total)), filling(share));
  if (m.swap_total > 0)
    pen.gap(2)
        .put("swap ", Style::dim)
        .put(fmt::format("{} of {}", short_bytes(static_cast<double>(m.swap_used)),
                         short_bytes(static_cast<double>(m.swap_total))));
  std::vector<std::string> cgroup;
  if (limits.cpus) cgroup.push_back(fmt::format("{:.4g} CPUs", *limits.cpus));
  if (limits.throttled.value_or(0) >= 0.05)
    cgroup.push_back(fmt::format("{:.1f} more held back", *limits.throttled));
  if (limits.memory)
    cgroup.push_back(fmt::format("{} of {}",
                                 short_bytes(static_cast<double>(limits.memory_used.value_or(0))),
                                 short_bytes(static_cast<double>(*limits.memory))));
  if (!cgroup.empty())
    pen.gap(2).put("cgroup ", Style::dim).put(fmt::format("{}", fmt::join(cgroup, ", ")));
  return row + 1;
}

int draw_pressure(Canvas& canvas, int row, const Moment& moment) {
  const diag::PressureReading& p = moment.machine.pressure;
  if (!p.cpu && !p.memory && !p.io) return row;
  Pen pen(canvas, row);
  pen.left("pressure", kLabel - 1, Style::title);
  const auto part = [&](const char* name, const std::optional<double>& share) {
    if (!share) return;
    pen.put(name, Style::dim)
        .gap(1)
        .left(percent(*share), 5, *share > 0.2 ? Style::notice : Style::plain);
  };
  part("cpu", p.cpu);
  part("memory", p.memory);
  part("io", p.io);
  return row + 1;
}

int draw_traffic(Canvas& canvas, int row, const Moment& moment) {
  std::vector<diag::DiskReading> disks = moment.machine.disks;
  std::vector<diag::NetworkReading> networks = moment.machine.networks;
  if (disks.empty() && networks.empty()) return row;
  std::ranges::stable_sort(disks, std::greater(), [](const auto& d) { return d.read + d.written; });
  std::ranges::stable_sort(networks, std::greater(), [](const auto& n) { return n.in + n.out; });
  const size_t most = canvas.size().columns >= 120 ? 3 : 1;
  Pen pen(canvas, row);
  pen.left("disk", kLabel - 1, Style::title);
  for (size_t i = 0; i < std::min(disks.size(), most); ++i)
    pen.put(disks[i].name, Style::plain, 10)
        .put(fmt::format(" read {}/s write {}/s busy {}  ", short_bytes(disks[i].read),
                         short_bytes(disks[i].written), percent(disks[i].busy)),
             Style::dim);
  if (!networks.empty()) pen.put("net ", Style::title);
  for (size_t i = 0; i < std::min(networks.size(), most); ++i)
    pen.put(networks[i].name, Style::plain, 10)
        .put(fmt::format(" in {}/s out {}/s  ", short_bytes(networks[i].in),
                         short_bytes(networks[i].out)),
             Style::dim);
  return row + 1;
}

int draw_gpus(Canvas& canvas, int row, const std::vector<Gpu>& gpus, int max_rows) {
  const int end = row + max_rows;
  const bool has_room = 2 * static_cast<int>(gpus.size()) <= max_rows;
  for (const Gpu& gpu : gpus) {
    if (row >= end) break;
    draw_gpu(canvas, row++, gpu);
    if (!has_room || !gpu.answers) continue;
    if (const std::vector<std::string> parts = traffic_parts(gpu.reading); !parts.empty())
      canvas.put(row++, kLabel, fmt::format("{}", fmt::join(parts, "  ")), Style::dim);
  }
  return row;
}

}  // namespace brim::top
