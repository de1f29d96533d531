#include "command/shrink_state.h"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "core/check.h"
#include "core/json_text.h"
#include "io/atomic_file.h"
#include "io/regular_file.h"

namespace brim::command {
namespace {

constexpr uint64_t kMaxFile = uint64_t{64} << 20;

Json form_json(const compress::LayerForm& form) {
  return {{"sparsity", form.sparsity}, {"int8", form.int8}};
}

/// Throws std::runtime_error: what is read is damaged.
double positive(const Json& json, const char* key) {
  const auto value = json.at(key).get<double>();
  if (!(value > 0 && value < 1e9)) throw std::runtime_error(fmt::format("{} is {}", key, value));
  return value;
}
double not_negative(const Json& json, const char* key) {
  const auto value = json.at(key).get<double>();
  if (!(value >= 0 && value < 1e9)) throw std::runtime_error(fmt::format("{} is {}", key, value));
  return value;
}
int64_t bytes_of(const Json& json) {
  const auto bytes = json.at("bytes").get<int64_t>();
  if (bytes <= 0 || bytes > int64_t{1} << 50)
    throw std::runtime_error(fmt::format("bytes are {}", bytes));
  return bytes;
}

compress::LayerForm form_of(const Json& json) {
  const auto sparsity = json.at("sparsity").get<double>();
  if (!(sparsity >= 0 && sparsity < 1))
    throw std::runtime_error(fmt::format("a sparsity is {}", sparsity));
  return {.sparsity = sparsity, .int8 = json.at("int8").get<bool>()};
}

compress::LayerForms forms_of(const Json& json) {
  compress::LayerForms forms;
  for (const auto& [name, form] : json.items()) forms[name] = form_of(form);
  return forms;
}

Json costs_json(const compress::LayerCosts& layer) {
  Json json = {{"name", layer.name},
               {"shape", std::vector<int64_t>(layer.shape.begin(), layer.shape.end())},
               {"dense_because", layer.why.empty() ? Json(nullptr) : Json(layer.why)},
               {"forms", Json::array()}};
  for (const compress::FormCost& cost : layer.forms) {
    Json entry = form_json(cost.form);
    entry["seconds"] = cost.seconds;
    entry["bytes"] = cost.bytes;
    entry["distance"] = cost.distance;
    json["forms"].push_back(std::move(entry));
  }
  return json;
}

compress::LayerCosts costs_of(const Json& json) {
  const auto sizes = json.at("shape").get<std::vector<int64_t>>();
  compress::LayerCosts layer{.name = json.at("name").get<std::string>(), .shape = Shape(sizes)};
  if (json.at("dense_because").is_string()) layer.why = json.at("dense_because");
  for (const Json& form : json.at("forms"))
    layer.forms.push_back({.form = form_of(form),
                           .seconds = not_negative(form, "seconds"),
                           .bytes = bytes_of(form),
                           .distance = not_negative(form, "distance")});
  if (layer.forms.empty() || !layer.forms[0].form.is_dense())
    throw std::runtime_error("a layer has no dense form");
  return layer;
}

ShrunkPoint point_of(const Json& json) {
  ShrunkPoint point{.forms = forms_of(json.at("forms")),
                    .predicted_s = not_negative(json, "predicted_s"),
                    .seconds = positive(json, "seconds"),
                    .joules = {},
                    .bytes = bytes_of(json),
                    .hash = json.at("hash").get<std::string>(),
                    .evaluation = json.at("evaluation"),
                    .metric = not_negative(json, "metric")};
  if (json.at("joules").is_number()) point.joules = not_negative(json, "joules");
  if (!point.evaluation.is_null() && !point.evaluation.is_object())
    throw std::runtime_error("an evaluation is none");
  return point;
}

}  // namespace

Json to_json(const compress::LayerForms& forms) {
  Json json = Json::object();
  for (const auto& [name, form] : forms) json[name] = form_json(form);
  return json;
}

std::string differences(const Json& a, const Json& b) {
  std::string all;
  for (const auto& [key, value] : a.items())
    if (!b.contains(key) || b[key] != value) all += (all.empty() ? "" : ", ") + key;
  return all;
}

Json ShrunkPoint::to_json() const {
  return {{"forms", command::to_json(forms)},
          {"predicted_s", predicted_s},
          {"seconds", seconds},
          {"joules", joules ? Json(*joules) : Json(nullptr)},
          {"bytes", bytes},
          {"hash", hash},
          {"metric", metric},
          {"evaluation", evaluation}};
}

Json ShrinkState::to_json() const {
  Json json = {
      {"asked", asked}, {"target", target}, {"layers", Json::array()}, {"points", Json::array()}};
  for (const compress::LayerCosts& layer : layers) json["layers"].push_back(costs_json(layer));
  for (const ShrunkPoint& point : points) json["points"].push_back(point.to_json());
  json["current"] = current ? command::to_json(*current) : Json(nullptr);
  return json;
}

void ShrinkState::check(const std::string& folder) const {
  try {
    for (const ShrunkPoint& point : points) (void)compress::choice_of(layers, point.forms);
    if (current) (void)compress::choice_of(layers, *current);
  } catch (const ValueError& e) {
    raise<FileError>("[shrink] {} is damaged ({}); begin anew with --overwrite", path(folder),
                     e.what());
  }
}

std::string ShrinkState::path(const std::string& folder) {
  return (std::filesystem::path(folder) / "search.json").string();
}

void ShrinkState::save(const std::string& folder) const {
  io::write_file_atomically(path(folder), to_json().dump(1) + "\n");
}

ShrinkState ShrinkState::load(const std::string& folder, const Json& asked) {
  const std::string from = path(folder);
  const io::RegularFile file(from, "shrink", "the state of a search");
  BRIM_CHECK(file.bytes() <= kMaxFile, FileError, "[shrink] {} is larger than {} bytes: it is none",
             from, kMaxFile);
  std::string text(file.bytes(), '\0');
  file.read(text.data(), text.size(), 0);
  const Json json = parse_json<Json>(text);
  ShrinkState state;
  try {
    state.asked = json.at("asked");
    state.target = json.at("target");
    for (const Json& layer : json.at("layers")) state.layers.push_back(costs_of(layer));
    for (const Json& point : json.at("points")) state.points.push_back(point_of(point));
    if (!json.at("current").is_null()) state.current = forms_of(json.at("current"));
    if (!state.points.empty() && !state.points[0].forms.empty())
      throw std::runtime_error("the first point is not the dense network");
  } catch (const std::exception& e) {
    raise<FileError>("[shrink] {} is damaged ({}); begin anew with --overwrite", from, e.what());
  }
  const std::string changed = differences(asked, state.asked);
  BRIM_CHECK(changed.empty(), FileError,
             "[shrink] {} is of a search that differs in {}; ask for the same, or begin anew with "
             "--overwrite",
             from, changed);
  return state;
}

}  // namespace brim::command
