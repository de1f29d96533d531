// Metadata keys: "brim.recipe" (TOML), "brim.classes" (a JSON list), and "format": "pt", which
// other readers of safetensors look for.
#include <brim/train/weights.h>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/json_text.h"
#include "diag/span.h"
#include "train/weights_metadata.h"

namespace brim::train {
namespace {

std::string classes_json(const std::vector<std::string>& classes) {
  return nlohmann::json(classes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::variant<io::SafeTensors, io::Pth> open_weights(const std::string& path) {
  if (is_pth(path)) return io::Pth(path);
  return io::SafeTensors(path);
}

}  // namespace

bool is_pth(const std::string& path) { return path.ends_with(".pth") || path.ends_with(".pt"); }

WeightsFile::WeightsFile(const std::string& path) : path_(path), file_(open_weights(path)) {}

const std::vector<std::string>& WeightsFile::names() const {
  return std::visit(
      [](const auto& f) -> const auto& { return f.names(); }, file_);
}
const io::TensorInfo& WeightsFile::info(const std::string& name) const {
  return std::visit(
      [&](const auto& f) -> const auto& { return f.info(name); }, file_);
}
io::TensorMap WeightsFile::load_all(Device device) const {
  return std::visit([&](const auto& f) { return f.load_all(device); }, file_);
}
io::Metadata WeightsFile::metadata() const {
  const auto* file = std::get_if<io::SafeTensors>(&file_);
  return file ? file->metadata() : io::Metadata();
}

bool same_classes(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return classes_json(a) == classes_json(b);
}

io::Metadata weights_metadata(const Recipe& recipe, const std::vector<std::string>& classes) {
  return {{"format", "pt"},
          {"brim.recipe", recipe.toml()},
          {"brim.name", recipe.name},
          {"brim.classes", classes_json(classes)}};
}

void save_weights(const std::string& path, const nn::Module& model, const Recipe& recipe,
                  const std::vector<std::string>& classes) {
  io::save_safetensors(path, model.state_dict(), weights_metadata(recipe, classes));
}

WeightsInfo read_weights_info(const WeightsFile& file) {
  WeightsInfo info;
  const std::string& path = file.path();
  const io::Metadata metadata = file.metadata();
  if (const auto it = metadata.find("brim.recipe"); it != metadata.end()) {
    const auto name = metadata.find("brim.name");
    info.recipe = parse_recipe(it->second, path);
    if (name != metadata.end()) info.recipe->name = name->second;
  }
  if (const auto it = metadata.find("brim.classes"); it != metadata.end()) {
    const auto list = parse_json(it->second);
    bool good = list.is_array() && list.size() <= 1'000'000;
    for (const auto& entry : list) good = good && entry.is_string();
    BRIM_CHECK(good, FileError,
               "[weights] {}: the metadata brim.classes is no list of names; the file is damaged",
               path);
    for (const auto& entry : list) info.classes.push_back(entry.get<std::string>());
  }
  return info;
}

void load_weights(const WeightsFile& file, nn::Module& model) {
  const diag::Scope scope("load weights", diag::Cause::file_read);
  try {
    model.load_state_dict(file.load_all());
  } catch (const ValueError& e) {
    raise<FileError>("[weights] {} does not fit the network: {}", file.path(), e.what());
  }
}

}  // namespace brim::train
