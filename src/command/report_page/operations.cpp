#include "command/report_page/operations.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "command/report_page/json_values.h"

namespace brim::command::page {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostRows = 100, kMostLaunches = 5000, kMostTemporaries = 1500;
constexpr double kMostBytes = 1e15;  // of an arena; 5,000 of them fit into 63 bits

Json numbers_of(const nlohmann::json& object, std::initializer_list<const char*> keys) {
  Json json = Json::object();
  for (const char* key : keys)
    if (const std::optional<double> value = number_at(object, key))
      json[key] = rounded_for_chart(*value);
  return json;
}

struct Temporary {
  std::string shape, dtype;
  int64_t offset = 0, bytes = 0, first = 0, last = 0;
  bool in_place = false;
};

/// A whole number from 0 to `most`.
std::optional<int64_t> count_in(const nlohmann::json& value, double most) {
  const std::optional<double> number = finite_number(&value);
  if (!number || *number < 0 || *number > most || *number != std::floor(*number)) return {};
  return static_cast<int64_t>(*number);
}

/// Of a row of the plan; nothing where it is none, or lies outside of the arena or the launches.
std::optional<Temporary> temporary_in(const nlohmann::json& row, double arena, double launches) {
  if (!row.is_array() || row.size() < 7 || !row[0].is_string() || !row[1].is_string()) return {};
  const auto offset = count_in(row[2], arena), bytes = count_in(row[3], arena);
  const auto first = count_in(row[4], launches), last = count_in(row[5], launches);
  if (!offset || !bytes || !first || !last || *first > *last) return {};
  if (static_cast<double>(*offset + *bytes) > arena) return {};
  return Temporary{label_of(row[0].get<std::string>()),
                   label_of(row[1].get<std::string>()),
                   *offset,
                   *bytes,
                   *first,
                   *last,
                   row[6].is_boolean() && row[6].get<bool>()};
}

Json live_json(const std::vector<Temporary>& temporaries, size_t launches) {
  std::vector<int64_t> change(launches + 2);
  for (const Temporary& t : temporaries) {
    if (t.in_place) continue;  // its bytes are those of another one
    change[static_cast<size_t>(t.first)] += t.bytes;
    change[static_cast<size_t>(t.last) + 1] -= t.bytes;
  }
  Json live = Json::array();
  int64_t now = 0;
  for (size_t i = 0; i < launches; ++i) live.push_back(now += change[i]);
  return live;
}

}  // namespace

Json operations_of(const nlohmann::json& result) {
  const nlohmann::json* const ops = find(result, "ops");
  if (!ops || !ops->is_array()) return nullptr;
  Json json = {{"device", text_at(result, "device")}, {"seconds", 0}, {"roof", nullptr}};
  if (const nlohmann::json* roof = find(result, "roof"); roof && roof->is_object()) {
    json["roof"] =
        numbers_of(*roof, {"operations_per_s", "bytes_per_s", "cache_bytes_per_s", "cache_bytes"});
    for (const char* key : {"operations_per_s", "bytes_per_s"})
      if (number_at(*roof, key).value_or(0) <= 0) json["roof"] = nullptr;
  }
  json["rows"] = Json::array();
  double seconds = 0;
  for (const nlohmann::json& op : *ops) {
    const double took = number_at(op, "seconds").value_or(0);
    if (took <= 0 || number_at(op, "calls").value_or(0) <= 0) continue;
    seconds += took;
    if (json["rows"].size() == kMostRows) continue;
    Json row = {{"op", text_at(op, "op")}, {"shapes", text_at(op, "shapes")}};
    row.update(numbers_of(op, {"calls", "seconds", "operations", "bytes", "share_of_roof"}));
    json["rows"].push_back(std::move(row));
  }
  if (json["rows"].empty()) return nullptr;
  json["seconds"] = rounded_for_chart(seconds);
  return json;
}

Json plan_of(const nlohmann::json& result) {
  const nlohmann::json* const plan = find(result, "plan");
  const nlohmann::json* const launches = plan ? find(*plan, "launches") : nullptr;
  const nlohmann::json* const rows = plan ? find(*plan, "temporaries") : nullptr;
  if (!launches || !launches->is_array() || !rows || !rows->is_array()) return nullptr;
  const double arena = number_at(*plan, "arena_bytes").value_or(0);
  if (launches->empty() || launches->size() > kMostLaunches || arena <= 0 || arena > kMostBytes)
    return nullptr;
  Json json = {{"arena_bytes", arena}, {"launches", Json::array()}};
  for (const nlohmann::json& launch : *launches) {
    if (!launch.is_array() || launch.empty() || !launch[0].is_string()) return nullptr;
    json["launches"].push_back(label_of(launch[0].get<std::string>()));
  }
  if (rows->size() > kMostLaunches) return nullptr;  // no training writes as many
  std::vector<Temporary> temporaries;
  for (const nlohmann::json& row : *rows) {
    auto temporary = temporary_in(row, arena, static_cast<double>(launches->size()));
    if (!temporary) return nullptr;
    temporaries.push_back(std::move(*temporary));
  }
  json["live"] = live_json(temporaries, launches->size());
  std::erase_if(temporaries, [](const Temporary& t) { return t.in_place; });
  std::ranges::stable_sort(
      temporaries, [](const Temporary& a, const Temporary& b) { return a.bytes > b.bytes; });
  if (temporaries.size() > kMostTemporaries) temporaries.resize(kMostTemporaries);
  json["temporaries"] = Json::array();
  for (const Temporary& t : temporaries)
    json["temporaries"].push_back({t.shape, t.dtype, t.offset, t.bytes, t.first, t.last});
  return json;
}

}  // namespace brim::command::page
