#include "command/shrink_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "command/format.h"
#include "command/frontier_svg.h"
#include "core/printable.h"

namespace brim::command {
namespace {

using compress::FormCost;

/// "50 % zeros 12.4, 8.8 (0.19)": in f32 and in integers, and how far the outputs are.
std::string forms_line(const compress::LayerCosts& layer) {
  std::string line;
  const auto cost_of = [&](double sparsity, bool int8) {
    return std::ranges::find(layer.forms, compress::LayerForm{sparsity, int8}, &FormCost::form);
  };
  const auto add = [&](const std::string& text) { line += (line.empty() ? "" : "; ") + text; };
  const auto int8 = cost_of(0, true);
  if (int8 != layer.forms.end())
    add(fmt::format("int8 {:.1f} ({:.1g})", 1e6 * int8->seconds, int8->distance));
  for (const FormCost& cost : layer.forms) {
    if (cost.form.sparsity == 0 || cost.form.int8) continue;
    const auto both = cost_of(cost.form.sparsity, true);
    add(fmt::format("{:g} % zeros {:.1f}{} ({:.1g})", 100 * cost.form.sparsity, 1e6 * cost.seconds,
                    both == layer.forms.end() ? "" : fmt::format(", {:.1f}", 1e6 * both->seconds),
                    cost.distance));
  }
  return line;
}

std::string name_of(size_t point) { return point == 0 ? "dense" : std::to_string(point); }

}  // namespace

std::string layer_lines(const ShrinkState& state, int64_t at_batch) {
  std::string lines = fmt::format(
      "layers alone, in us for {} {}: as it is; in other forms (how far the network's outputs "
      "move); pruned in f32, in int8\n",
      at_batch, at_batch == 1 ? "sample" : "samples");
  for (const compress::LayerCosts& layer : state.widths[0].layers)
    lines += fmt::format("  {:<24} {:<16} {:>7.1f}  {}\n", printable(layer.name), layer.shape.str(),
                         1e6 * layer.forms[0].seconds,
                         layer.why.empty() ? forms_line(layer) : printable(layer.why));
  return lines;
}

std::string width_lines(const ShrinkState& state, int64_t at_batch) {
  if (state.groups.empty()) return "";
  std::string lines = fmt::format(
      "channels that go together, by the first layer that makes them: us for {} of the whole "
      "network without a share of them (how far its outputs move)\n",
      at_batch);
  for (const compress::LayerCosts& group : state.groups) {
    std::string line;
    for (const FormCost& cost : group.forms)
      if (cost.form.channels > 0)
        line += fmt::format("{}{:g} % {:.1f} ({:.1g})", line.empty() ? "" : "; ",
                            100 * cost.form.channels, 1e6 * cost.seconds, cost.distance);
    lines += fmt::format("  {:<24} {:<16} {:>7.1f}  {}\n", printable(group.name), group.shape.str(),
                         1e6 * group.forms[0].seconds, line.empty() ? printable(group.why) : line);
  }
  for (size_t i = 1; i < state.widths.size(); ++i)
    lines += fmt::format("  width {}: {:.1f} us, {} ({:.1g})\n", i, 1e6 * state.widths[i].seconds,
                         format_bytes(state.widths[i].bytes), state.widths[i].distance);
  return lines;
}

std::string frontier_lines(const ShrinkState& state, const std::string& metric, int64_t at_batch,
                           std::optional<size_t> chosen) {
  const ShrunkPoint& dense = state.points[0];
  const bool has_energy =
      std::ranges::all_of(state.points, &std::optional<double>::has_value, &ShrunkPoint::joules);
  std::string lines = fmt::format("{:<6} {:>10} {:>8} {:>11} {:>8} {}{:>9}\n", "point",
                                  fmt::format("ms for {}", at_batch), "faster", "file", "smaller",
                                  has_energy ? fmt::format("{:>9} ", "mJ") : "", metric);
  for (size_t i = 0; i < state.points.size(); ++i) {
    const ShrunkPoint& point = state.points[i];
    std::string value;
    if (!metric.empty()) value = fmt::format("{:>7.2f} %", 100 * point.metric);
    if (!metric.empty() && i > 0)
      value += fmt::format(" ({:+.2f})", 100 * (point.metric - dense.metric));
    lines +=
        fmt::format("{:<6} {:>10.4g} {:>6.2f} x {:>11} {:>6.2f} x {}{}{}\n", name_of(i),
                    1e3 * point.seconds, dense.seconds / point.seconds, format_bytes(point.bytes),
                    static_cast<double>(dense.bytes) / static_cast<double>(point.bytes),
                    has_energy ? fmt::format("{:>9.3f} ", 1e3 * point.joules.value_or(0)) : "",
                    value + (point.width > 0 ? fmt::format("  width {}", point.width) : ""),
                    chosen == i ? "  <- chosen" : "");
  }
  return lines;
}

std::string frontier_drawing(const ShrinkState& state, const std::string& metric, int64_t at_batch,
                             std::optional<size_t> chosen) {
  std::vector<FrontierDot> dots;
  for (size_t i = 0; i < state.points.size(); ++i) {
    const ShrunkPoint& point = state.points[i];
    dots.push_back(
        {.milliseconds = 1e3 * point.seconds,
         .percent = 100 * point.metric,
         .bytes = static_cast<double>(point.bytes),
         .label = name_of(i),
         .title = fmt::format("{}: {:.4g} ms, {}, {:.2f} %{}", name_of(i), 1e3 * point.seconds,
                              format_bytes(point.bytes), 100 * point.metric,
                              point.width > 0 ? fmt::format(", width {}", point.width) : ""),
         .is_chosen = chosen == i});
  }
  return frontier_svg(dots, metric, at_batch);
}

}  // namespace brim::command
