#include "command/report_page/compression.h"

#include <brim/compress/shrink.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "command/report_page/json_values.h"

namespace brim::command::page {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRows = 500;

/// The items of a list in `json`, each an object.
std::vector<const nlohmann::json*> rows_of(const nlohmann::json& json, std::string_view path) {
  std::vector<const nlohmann::json*> rows;
  const nlohmann::json* const list = find(json, path);
  if (!list || !list->is_array()) return rows;
  for (const nlohmann::json& row : *list)
    if (row.is_object() && rows.size() < kMaxRows) rows.push_back(&row);
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

/// Of what `brim shrink` tried.
Json points_of(const nlohmann::json& result) {
  Json stages = Json::array();
  const std::optional<double> chosen = number_at(result, "chosen");
  for (const nlohmann::json* point : rows_of(result, "points")) {
    const size_t number = stages.size();
    const std::string what = number == 0 ? "dense" : "point";
    Json stage = stage_of(what, find(*point, "evaluation"));
    if (stage.is_null()) stage = {{"what", what}, {"metrics", Json::object()}};  // no test split
    if (number > 0) stage["number"] = number;
    stage["seconds"] = number_or_null(*point, "seconds");
    stage["bytes"] = number_or_null(*point, "bytes");
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

std::string fate_of(const nlohmann::json& layer) {
  for (const char* key : {"dense_because", "f32_because"})
    if (const std::string why = text_at(layer, key); !why.empty())
      return text_at(layer, "pruned_shape") == text_at(layer, "shape") ||
                     !find(layer, "pruned_shape")
                 ? why
                 : text_at(layer, "pruned_shape") + ": " + why;
  if (const std::string shape = text_at(layer, "pruned_shape"); !shape.empty()) return shape;
  if (const std::optional<double> zeros = number_at(layer, "sparsity"))
    return fmt::format("{:.1f} % zeros", 100 * *zeros);
  const std::optional<double> error = number_at(layer, "error");
  return error ? fmt::format("int8, error {:.2f} %", 100 * *error) : "";
}

/// By the forms of the chosen point, where a search chose them.
Json layers_of(const nlohmann::json& result) {
  Json layers = Json::array();
  const std::optional<double> chosen = number_at(result, "chosen");
  const nlohmann::json* const forms =
      chosen && *chosen >= 0 && *chosen < 1000
          ? find(result, fmt::format("points/{}/forms", static_cast<int>(*chosen)))
          : nullptr;
  for (const nlohmann::json* layer : rows_of(result, "layers")) {
    const std::string name = text_at(*layer, "name");
    std::string what = fate_of(*layer);
    if (find(*layer, "forms")) {
      compress::LayerForm form;
      if (forms && forms->is_object() && forms->contains(name)) {
        const nlohmann::json& its = (*forms)[name];
        const nlohmann::json* const int8 = find(its, "int8");
        form = {.sparsity = number_at(its, "sparsity").value_or(0),
                .int8 = int8 && int8->is_boolean() && int8->get<bool>(),
                .channels = number_at(its, "channels").value_or(0)};
      }
      what = form.str();
    }
    layers.push_back({{"name", name}, {"shape", shape_of(*layer)}, {"what", std::move(what)}});
  }
  return layers;
}

Json times_of(const nlohmann::json& result) {
  Json times = Json::array();
  for (const nlohmann::json* row : rows_of(result, "times")) {
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
  if (command == "shrink") {
    stages = points_of(result);
  } else {
    for (const char* what : {"dense", "pruned", "int8", "fine_tuned"})
      if (Json stage = stage_of(what, find(result, what)); !stage.is_null())
        stages.push_back(std::move(stage));
  }
  return {{"command", command},
          {"stages", std::move(stages)},
          {"layers", layers_of(result)},
          {"times", times_of(result)},
          {"bytes", number_or_null(result, "bytes")},
          {"parameters",
           {{"dense", number_or_null(result, "parameters/dense")},
            {"pruned", number_or_null(result, "parameters/pruned")}}}};
}

}  // namespace brim::command::page
