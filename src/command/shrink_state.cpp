#include "command/shrink_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "core/check.h"
#include "core/json_text.h"
#include "io/atomic_file.h"
#include "io/regular_file.h"

namespace brim::command {
namespace {

constexpr uint64_t kMaxFile = uint64_t{64} << 20;
constexpr int kFormat = 2;  // the first one had no widths, and did not name itself

Json form_json(const compress::LayerForm& form) {
  Json json = {{"sparsity", form.sparsity}, {"int8", form.int8}};
  if (form.channels > 0) json["channels"] = form.channels;
  return json;
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
  const auto channels = json.value("channels", 0.0);
  if (!(channels >= 0 && channels < 1))
    throw std::runtime_error(fmt::format("a share of channels is {}", channels));
  return {.sparsity = sparsity, .int8 = json.at("int8").get<bool>(), .channels = channels};
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

std::map<std::string, double> counts_of(const Json& json) {
  std::map<std::string, double> counts;
  for (const auto& [name, count] : json.items()) {
    counts[name] = static_cast<double>(count.get<int64_t>());
    if (!(counts[name] >= 1)) throw std::runtime_error(fmt::format("{} has no channels", name));
  }
  return counts;
}

ShrunkWidth width_of(const Json& json) {
  ShrunkWidth width{.groups = forms_of(json.at("groups")),
                    .channels = {.inputs = counts_of(json.at("inputs")),
                                 .outputs = counts_of(json.at("outputs"))},
                    .seconds = positive(json, "seconds"),
                    .distance = not_negative(json, "distance"),
                    .bytes = bytes_of(json),
                    .hash = json.at("hash").get<std::string>(),
                    .layers = {},
                    .fastest_s = 0};
  for (const Json& layer : json.at("layers")) width.layers.push_back(costs_of(layer));
  width.fastest_s = not_negative(json, "fastest_s");
  return width;
}

ShrunkPoint point_of(const Json& json) {
  ShrunkPoint point{.width = json.at("width").get<size_t>(),
                    .forms = forms_of(json.at("forms")),
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

void check_format(const Json& json, const std::string& from) {
  if (!json.is_object() || !json.contains("asked")) return;  // damaged
  const Json format = json.value("format", Json(1));
  BRIM_CHECK(format == kFormat, FileError,
             "[shrink] {} is of format {}, which another version of brim writes (this one: {}); go "
             "on with that version, or begin anew with --overwrite",
             from, format.dump(), kFormat);
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

compress::LayerForms ShrunkWidth::fastest_forms() const {
  compress::LayerForms forms;
  for (const compress::LayerCosts& layer : layers) {
    const compress::FormCost* fastest = &layer.forms[0];
    for (const compress::FormCost& cost : layer.forms)
      if (cost.form.sparsity == 0 && cost.seconds < fastest->seconds) fastest = &cost;
    if (!fastest->form.is_dense()) forms[layer.name] = fastest->form;
  }
  return forms;
}

Json ShrunkWidth::to_json() const {
  Json json = {{"groups", command::to_json(groups)},
               {"inputs", Json::object()},
               {"outputs", Json::object()},
               {"seconds", seconds},
               {"distance", distance},
               {"bytes", bytes},
               {"hash", hash},
               {"fastest_s", fastest_s},
               {"layers", Json::array()}};
  for (const auto& [name, count] : channels.inputs)
    json["inputs"][name] = static_cast<int64_t>(count);
  for (const auto& [name, count] : channels.outputs)
    json["outputs"][name] = static_cast<int64_t>(count);
  for (const compress::LayerCosts& layer : layers) json["layers"].push_back(costs_json(layer));
  return json;
}

Json ShrunkPoint::to_json() const {
  return {{"width", width},
          {"forms", command::to_json(forms)},
          {"predicted_s", predicted_s},
          {"seconds", seconds},
          {"joules", joules ? Json(*joules) : Json(nullptr)},
          {"bytes", bytes},
          {"hash", hash},
          {"metric", metric},
          {"evaluation", evaluation}};
}

void ShrinkState::drop_points() {
  points.resize(std::min<size_t>(points.size(), 1));
  current.reset();
}

Json ShrinkState::to_json() const {
  Json json = {{"format", kFormat},       {"asked", asked},          {"target", target},
               {"groups", Json::array()}, {"widths", Json::array()}, {"points", Json::array()}};
  for (const compress::LayerCosts& group : groups) json["groups"].push_back(costs_json(group));
  for (const ShrunkWidth& width : widths) json["widths"].push_back(width.to_json());
  for (const ShrunkPoint& point : points) json["points"].push_back(point.to_json());
  json["current"] = current ? command::to_json(*current) : Json(nullptr);
  json["current_width"] = current_width;
  json["steps"] = steps;
  return json;
}

void ShrinkState::check(const std::string& folder) const {
  try {
    const auto check_forms = [this](size_t width, const compress::LayerForms& forms) {
      BRIM_CHECK(width < widths.size(), ValueError, "there is no network {}", width);
      (void)compress::choice_of(widths[width].layers, forms);
    };
    for (const ShrunkPoint& point : points) check_forms(point.width, point.forms);
    if (current) check_forms(current_width, *current);
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
  check_format(json, from);
  ShrinkState state;
  try {
    state.asked = json.at("asked");
    state.target = json.at("target");
    for (const Json& group : json.at("groups")) state.groups.push_back(costs_of(group));
    for (const Json& width : json.at("widths")) state.widths.push_back(width_of(width));
    for (const Json& point : json.at("points")) state.points.push_back(point_of(point));
    if (!json.at("current").is_null()) state.current = forms_of(json.at("current"));
    state.current_width = json.at("current_width").get<size_t>();
    state.steps = json.value("steps", int64_t{0});
    if (!state.points.empty() && state.widths.empty())
      throw std::runtime_error("the dense network is missing");
    if (!state.points.empty() && !state.points[0].forms.empty())
      throw std::runtime_error("the first point is not the dense network");
  } catch (const Json::exception&) {
    raise<FileError>(
        "[shrink] {} is damaged (something is missing in it, or of another kind); begin anew with "
        "--overwrite",
        from);
  } catch (const std::runtime_error& e) {
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
