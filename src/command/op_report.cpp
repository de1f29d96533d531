#include "command/op_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "command/report.h"

namespace brim::command {

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

double share_of_roof(const diag::OpTime& op, const DeviceRoof& roof) {
  if (!roof.is_known() || op.bytes <= 0 || op.seconds <= 0)
    return std::numeric_limits<double>::quiet_NaN();
  const double least =
      std::max(op.operations / roof.operations_per_s, op.bytes / roof.bandwidth_of(op.bytes));
  return static_cast<double>(op.calls) * least / op.seconds;
}

Json ops_json(const std::vector<diag::OpTime>& ops, size_t most, const DeviceRoof& roof) {
  Json rows = Json::array();
  for (const diag::OpTime& op : ops) {
    if (rows.size() == most) break;
    const bool is_known = op.bytes > 0;
    rows.push_back({{"op", op.name},
                    {"dtype", is_known ? Json(name(op.dtype)) : Json(nullptr)},
                    {"shapes", op.shapes},
                    {"calls", op.calls},
                    {"seconds", op.seconds},
                    {"operations", is_known ? Json(op.operations) : Json(nullptr)},
                    {"bytes", is_known ? Json(op.bytes) : Json(nullptr)}});
    if (roof.is_known()) rows.back()["share_of_roof"] = finite(share_of_roof(op, roof));
  }
  return rows;
}

std::string dearest_line(const std::vector<diag::OpTime>& ops) {
  constexpr size_t kNamed = 4;
  std::map<std::string, double> by_name;
  double all = 0;
  for (const diag::OpTime& op : ops) {
    by_name[op.name] += op.seconds;
    all += op.seconds;
  }
  if (all <= 0) return "";
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, seconds] : by_name) order.emplace_back(seconds, name);
  std::ranges::sort(order, std::greater());
  if (order.size() > kNamed) order.resize(kNamed);
  std::string line;
  for (const auto& [seconds, name] : order)
    line += fmt::format("{}{} {:.0f} %", line.empty() ? "dearest kernels: " : ", ", name,
                        100 * seconds / all);
  return line;
}

Json timeline_json(const PlanTimeline& timeline) {
  constexpr size_t kMost = 5000;
  if (timeline.launches.empty() || timeline.launches.size() > kMost ||
      timeline.temporaries.size() > kMost)
    return nullptr;
  Json json = {{"arena_bytes", timeline.arena_bytes},
               {"launches", Json::array()},
               {"temporaries", Json::array()}};
  for (const PlanTimeline::Launch& launch : timeline.launches)
    json["launches"].push_back({launch.name, launch.operations, launch.bytes});
  for (const PlanTimeline::Temporary& t : timeline.temporaries)
    json["temporaries"].push_back(
        {t.shape, t.dtype, t.offset, t.bytes, t.first, t.last, t.in_place});
  return json;
}

}  // namespace brim::command
