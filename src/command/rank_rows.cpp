#include "command/rank_rows.h"

#include <brim/core/allocator.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command/format.h"
#include "core/check.h"
#include "core/host_name.h"
#include "core/json_text.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const RankRow& r) {
  return {{"rank", r.rank},       {"host", r.host},
          {"device", r.device},   {"us_per_step", r.us_per_step},
          {"compute", r.compute}, {"communication", r.communication},
          {"input", r.input},     {"peak_memory", r.peak_memory}};
}

RankRow from_json(const std::string& text, size_t rank) {
  const Json json = parse_json<Json>(text);
  try {
    return {json.at("rank"),        json.at("host"),       json.at("device"),
            json.at("us_per_step"), json.at("compute"),    json.at("communication"),
            json.at("input"),       json.at("peak_memory")};
  } catch (const Json::exception& e) {
    raise<DistError>("[train] rank {} tells nothing of what it did: {}", rank, e.what());
  }
}

/// All ranks' steps take the same time; the slowest one waits least for the others.
int slowest_of(const std::vector<RankRow>& rows) {
  return std::ranges::min_element(rows, {}, &RankRow::communication)->rank;
}

}  // namespace

std::vector<RankRow> gather_rows(dist::ProcessGroup& group, Device device,
                                 const train::TrainResult& result) {
  const double wall = std::max(result.account.wall, 1e-9);
  const auto share = [&](diag::Cause cause) {
    return result.account.seconds[static_cast<size_t>(cause)] / wall;
  };
  const RankRow own{.rank = group.rank(),
                    .host = host_name(),
                    .device = device.str(),
                    .us_per_step = result.us_per_step,
                    .compute = share(diag::Cause::compute),
                    .communication = share(diag::Cause::communication),
                    .input = share(diag::Cause::input),
                    .peak_memory = static_cast<int64_t>(Allocator::of(device).stats().peak_live)};
  std::vector<RankRow> rows;
  const std::vector<std::string> texts = group.all_gather_text(to_json(own).dump());
  for (size_t r = 0; r < texts.size(); ++r) rows.push_back(from_json(texts[r], r));
  return rows;
}

std::string rows_table(const std::vector<RankRow>& rows) {
  std::string text =
      "rank  host and device        step        compute  communication  input  peak memory\n";
  for (const RankRow& r : rows)
    text += fmt::format("{:>4}  {:<20} {:>8.0f} us {:>9.1f} % {:>11.1f} % {:>4.1f} %  {:>11}\n",
                        r.rank, r.host + " " + r.device, r.us_per_step, 100 * r.compute,
                        100 * r.communication, 100 * r.input, format_bytes(r.peak_memory));
  return text + fmt::format("rank {} waits least for the others\n", slowest_of(rows));
}

Json rows_json(const std::vector<RankRow>& rows) {
  Json json = Json::array();
  for (const RankRow& row : rows) json.push_back(to_json(row));
  return json;
}

Json summary_json(const std::vector<RankRow>& rows) {
  Json json = {{"slowest_rank", slowest_of(rows)}};
  const auto add = [&](const char* name, auto figure) {
    std::vector<std::remove_cvref_t<decltype(rows[0].*figure)>> all;
    for (const RankRow& row : rows) all.push_back(row.*figure);
    std::ranges::sort(all);
    json[name] = {{"min", all.front()}, {"median", all[all.size() / 2]}, {"max", all.back()}};
  };
  add("us_per_step", &RankRow::us_per_step);
  add("compute", &RankRow::compute);
  add("communication", &RankRow::communication);
  add("input", &RankRow::input);
  add("peak_memory", &RankRow::peak_memory);
  return json;
}

}  // namespace brim::command
