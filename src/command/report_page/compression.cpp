#include "command/report_page/compression.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "command/report_page/json_values.h"

namespace brim::command::page {
namespace {

using Json = nlohmann::ordered_json;

/// Rows of a table on the page.
constexpr size_t kMaxRows = 500;

using Rows = std::vector<const nlohmann::json*>;

/// The items of a list in `json`, each an object.
Rows rows_of(const nlohmann::json& json, std::string_view path) {
  Rows rows;
  const nlohmann::json* const list = find(json, path);
  if (!list || !list->is_array()) return rows;
  for (const nlohmann::json& row : *list)
    if (row.is_object()) rows.push_back(&row);
  return rows;
}

/// The first ones, as many as a table has.
Rows first_rows_of(const nlohmann::json& json, std::string_view path) {
  Rows rows = rows_of(json, path);
  rows.resize(std::min(rows.size(), kMaxRows));
  return rows;
}

Json number_or_null(const nlohmann::json& json, std::string_view path) {
  const std::optional<double> value = number_at(json, path);
  return value ? Json(rounded_for_chart(*value)) : Json(nullptr);
}

/// Of an evaluation; null where there was none. `what`: a key of the page's texts.
Json stage_of(const std::string& what, const nlohmann::json* evaluation) {
  if (!evaluation || !evaluation->is_object()) return nullptr;
  Json metrics = Json::object();
  if (const nlohmann::json* found = find(*evaluation, "metrics"); found && found->is_object()) {
    const Json all = cleaned(*found);
    for (const auto& [name, value] : all.items())
      if (value.is_number()) metrics[name] = value;
  }
  Json difference = nullptr;
  if (find(*evaluation, "accuracy_difference/mean"))
    difference = {{"mean", number_or_null(*evaluation, "accuracy_difference/mean")},
                  {"low", number_or_null(*evaluation, "accuracy_difference/low")},
                  {"high", number_or_null(*evaluation, "accuracy_difference/high")}};
  return {{"what", what},
          {"loss", number_or_null(*evaluation, "loss")},
          {"metrics", std::move(metrics)},
          {"difference", std::move(difference)}};
}

/// What `brim shrink` compares points by; what is not known is worst.
struct PointCost {
  size_t number;
  double seconds, bytes, metric;

  PointCost(size_t number, const nlohmann::json& point)
      : number(number),
        seconds(number_at(point, "seconds").value_or(kWorst)),
        bytes(number_at(point, "bytes").value_or(kWorst)),
        metric(number_at(point, "metric").value_or(-kWorst)) {}
  std::tuple<double, double, double, size_t> order() const {
    return {seconds, bytes, -metric, number};
  }
  /// Of one that is behind it in that order.
  bool beats(const PointCost& later) const {
    return bytes <= later.bytes && metric >= later.metric;
  }

 private:
  static constexpr double kWorst = std::numeric_limits<double>::infinity();
};

/// Of many points those that matter: the dense network, the chosen point, those that no other one
/// beats, and of the rest as many as a table has, evenly spread.
std::vector<size_t> shown_points(const Rows& points, std::optional<double> chosen) {
  std::vector<size_t> all(points.size());
  std::iota(all.begin(), all.end(), size_t{0});
  if (all.size() <= kMaxRows) return all;
  std::vector<PointCost> costs;
  for (const size_t number : all) costs.emplace_back(number, *points[number]);
  std::ranges::sort(costs, {}, &PointCost::order);
  std::vector<PointCost> frontier;
  for (const PointCost& cost : costs)  // behind whatever beats it
    if (std::ranges::none_of(frontier, [&](const PointCost& f) { return f.beats(cost); }))
      frontier.push_back(cost);
  std::set<size_t> shown = {0};
  for (const size_t number : all)
    if (chosen == static_cast<double>(number)) shown.insert(number);
  for (const PointCost& cost : frontier)
    if (shown.size() < kMaxRows) shown.insert(cost.number);
  std::vector<size_t> rest;
  std::ranges::set_difference(all, shown, std::back_inserter(rest));
  const size_t free = kMaxRows - shown.size();
  for (size_t i = 0; i < free; ++i) shown.insert(rest[i * rest.size() / free]);
  return {shown.begin(), shown.end()};
}

/// Of what `brim shrink` tried.
Json points_of(const Rows& points, std::optional<double> chosen) {
  Json stages = Json::array();
  for (const size_t number : shown_points(points, chosen)) {
    const nlohmann::json& point = *points[number];
    const std::string what = number == 0 ? "dense" : "point";
    Json stage = stage_of(what, find(point, "evaluation"));
    if (stage.is_null()) stage = {{"what", what}, {"metrics", Json::object()}};  // no test split
    if (number > 0) stage["number"] = number;
    stage["seconds"] = number_or_null(point, "seconds");
    stage["bytes"] = number_or_null(point, "bytes");
    stage["is_chosen"] = chosen == static_cast<double>(number);
    stages.push_back(std::move(stage));
  }
  return stages;
}

/// "(8, 4)", which a search writes as a list.
std::string shape_of(const nlohmann::json& layer) {
  std::string sizes;
  const nlohmann::json* const shape = find(layer, "shape");
  if (!shape || !shape->is_array()) return text_at(layer, "shape");
  for (const nlohmann::json& size : *shape)
    sizes += (sizes.empty() ? "" : ", ") + label_of(size.dump());
  return "(" + label_of(sizes) + ")";
}

/// What became of a layer of `brim prune` or `quantize`.
Json fate_of(const nlohmann::json& layer) {
  Json fate = Json::object();
  const std::string shape = text_at(layer, "pruned_shape");
  const bool is_smaller = !shape.empty() && shape != text_at(layer, "shape");
  for (const char* key : {"dense_because", "f32_because"})
    if (const std::string why = text_at(layer, key); !why.empty()) fate["why"] = why;
  if (!shape.empty() && (is_smaller || !fate.contains("why"))) fate["shape"] = shape;
  if (!fate.empty()) return fate;
  if (find(layer, "sparsity")) fate["zeros"] = number_or_null(layer, "sparsity");
  if (find(layer, "error"))
    fate = {{"int8", true}, {"zeros", nullptr}, {"error", number_or_null(layer, "error")}};
  if (const std::optional<double> density = number_at(layer, "density"))
    fate["zeros"] = rounded_for_chart(1 - *density);
  return fate;
}

/// As the chosen point of a search has it, whose `forms` there may be none of.
Json form_of(const nlohmann::json* forms, const std::string& layer) {
  if (!forms || !forms->is_object() || !forms->contains(layer)) return Json::object();
  const nlohmann::json& form = (*forms)[layer];
  Json fate = Json::object();
  if (number_at(form, "channels").value_or(0) > 0)
    fate["fewer_channels"] = number_or_null(form, "channels");
  if (number_at(form, "sparsity").value_or(0) > 0) fate["zeros"] = number_or_null(form, "sparsity");
  if (const nlohmann::json* int8 = find(form, "int8"))
    fate["int8"] = int8->is_boolean() && int8->get<bool>();
  return fate;
}

/// By the forms of the chosen point, where a search chose them.
Json layers_of(const nlohmann::json& result) {
  Json layers = Json::array();
  const std::optional<double> chosen = number_at(result, "chosen");
  const Rows points = rows_of(result, "points");
  const nlohmann::json* const forms =
      chosen && *chosen >= 0 && *chosen < static_cast<double>(points.size())
          ? find(*points[static_cast<size_t>(*chosen)], "forms")
          : nullptr;
  for (const nlohmann::json* layer : first_rows_of(result, "layers")) {
    const std::string name = text_at(*layer, "name");
    layers.push_back({{"name", name},
                      {"shape", shape_of(*layer)},
                      {"became", find(*layer, "forms") ? form_of(forms, name) : fate_of(*layer)}});
  }
  return layers;
}

Json times_of(const nlohmann::json& result) {
  Json times = Json::array();
  for (const nlohmann::json* row : first_rows_of(result, "times")) {
    Json time = {{"batch", number_or_null(*row, "batch")}};
    for (const char* key : {"dense_s", "f32_s"})
      if (find(*row, key)) time["before"] = number_or_null(*row, key);
    for (const char* key : {"sparse_s", "pruned_s", "int8_s"})
      if (find(*row, key)) time["after"] = number_or_null(*row, key);
    times.push_back(std::move(time));
  }
  return times;
}

}  // namespace

Json compression_of(const nlohmann::json& result) {
  const std::string command = text_at(result, "command");
  if (command != "prune" && command != "quantize" && command != "shrink") return nullptr;
  Json stages = Json::array();
  size_t points = 0;
  if (command == "shrink") {
    const Rows all = rows_of(result, "points");
    points = all.size();
    stages = points_of(all, number_at(result, "chosen"));
  } else {
    for (const char* what : {"dense", "pruned", "int8", "fine_tuned"})
      if (Json stage = stage_of(what, find(result, what)); !stage.is_null())
        stages.push_back(std::move(stage));
  }
  return {{"command", command},
          {"stages", std::move(stages)},
          {"points", points},
          {"layers", layers_of(result)},
          {"all_layers", rows_of(result, "layers").size()},
          {"times", times_of(result)},
          {"bytes", number_or_null(result, "bytes")},
          {"parameters",
           {{"dense", number_or_null(result, "parameters/dense")},
            {"pruned", number_or_null(result, "parameters/pruned")}}}};
}

}  // namespace brim::command::page
