// Metadata keys: "brim.recipe" (TOML), "brim.name", "brim.classes", "brim.columns", "brim.targets",
// "brim.input" (JSON lists), and "format": "pt", which other readers of safetensors look for.
#include <brim/train/weights.h>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/check.h"
#include "core/json_text.h"
#include "diag/span.h"
#include "rt/format.h"
#include "train/encoded_weights.h"
#include "train/weights_metadata.h"

namespace brim::train {
namespace {

constexpr uint64_t kMaxElements = uint64_t{1} << 31;

std::string names_json(const std::vector<std::string>& names) {
  return nlohmann::json(names).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Empty where there is no such key.
std::vector<std::string> names_in(const io::Metadata& metadata, const char* key,
                                  const std::string& path) {
  std::vector<std::string> names;
  const auto it = metadata.find(key);
  if (it == metadata.end()) return names;
  const auto list = parse_json(it->second);
  bool good = list.is_array() && list.size() <= 1'000'000;
  for (const auto& entry : list) good = good && entry.is_string();
  BRIM_CHECK(good, FileError,
             "[weights] {}: the metadata {} is no list of names; the file is damaged", path, key);
  for (const auto& entry : list) names.push_back(entry.get<std::string>());
  return names;
}

/// Of `brim export`: it holds weights as its runtime reads them.
bool is_engine(const std::string& path) {
  char magic[sizeof(rt::kMagic)] = {};
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) &&  // a pipe would be waited for
         std::ifstream(path, std::ios::binary).read(magic, sizeof(magic)) &&
         std::ranges::equal(magic, rt::kMagic);
}

std::variant<io::SafeTensors, io::Pth> open_weights(const std::string& path) {
  if (is_pth(path)) return io::Pth(path);
  try {
    return io::SafeTensors(path);
  } catch (const FileError&) {
    BRIM_CHECK(!is_engine(path), FileError,
               "[weights] {} is an engine, which its runtime runs (`brim verify` tries it); give "
               "the weights that it was exported from",
               path);
    throw;
  }
}

}  // namespace

bool is_pth(const std::string& path) { return path.ends_with(".pth") || path.ends_with(".pt"); }

WeightsFile::WeightsFile(const std::string& path) : path_(path), file_(open_weights(path)) {
  const auto* file = std::get_if<io::SafeTensors>(&file_);
  if (!file) return;
  encoded_ = encoded_weights(*file, path_);
  std::set<std::string> parts;
  for (const auto& [name, weight] : encoded_) {
    parts.insert(weight.parts.begin(), weight.parts.end());
    names_.push_back(name);
  }
  for (const std::string& name : file->names())
    if (!encoded_.empty() && !parts.contains(name)) names_.push_back(name);
}

const std::vector<std::string>& WeightsFile::names() const {
  if (!encoded_.empty()) return names_;
  return std::visit(
      [](const auto& f) -> const auto& { return f.names(); }, file_);
}
const io::TensorInfo& WeightsFile::info(const std::string& name) const {
  if (const auto found = encoded_.find(name); found != encoded_.end()) return found->second.info;
  return std::visit(
      [&](const auto& f) -> const auto& { return f.info(name); }, file_);
}
io::TensorMap WeightsFile::load_all(Device device) const {
  if (!encoded_.empty()) {
    io::TensorMap all;
    for (const std::string& name : names_) all[name] = load(name).to(device);
    return all;
  }
  return std::visit([&](const auto& f) { return f.load_all(device); }, file_);
}
Tensor WeightsFile::load(const std::string& name) const {
  if (const auto found = encoded_.find(name); found != encoded_.end())
    return found->second.load(std::get<io::SafeTensors>(file_));
  return std::visit([&](const auto& f) { return f.load(name); }, file_);
}
size_t WeightsFile::int8_count() const {
  return static_cast<size_t>(
      std::ranges::count_if(encoded_, [](const auto& e) { return e.second.int8 != nullptr; }));
}
compress::Int8Layers WeightsFile::int8_layers() const {
  compress::Int8Layers all;
  for (const auto& [name, weight] : encoded_)
    if (weight.int8) all[name] = weight.int8(std::get<io::SafeTensors>(file_));
  return all;
}
io::Metadata WeightsFile::metadata() const {
  const auto* file = std::get_if<io::SafeTensors>(&file_);
  return file ? file->metadata() : io::Metadata();
}

bool same_classes(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return names_json(a) == names_json(b);
}

io::Metadata weights_metadata(const WeightsInfo& info) {
  io::Metadata metadata{{"format", "pt"}, {"brim.classes", names_json(info.classes)}};
  if (info.recipe) {
    Recipe recipe = *info.recipe;
    if (recipe.prune.is_of_channels()) recipe.prune = {};  // they are gone: [channels] says so
    metadata["brim.recipe"] = recipe.learned_toml();
    metadata["brim.name"] = info.recipe->name;
  }
  if (!info.columns.empty()) metadata["brim.columns"] = names_json(info.columns);
  if (!info.targets.empty()) metadata["brim.targets"] = names_json(info.targets);
  if (info.input.rank() > 0)
    metadata["brim.input"] =
        nlohmann::json(std::vector<int64_t>(info.input.begin(), info.input.end())).dump();
  return metadata;
}

void save_weights(const std::string& path, const nn::Module& model, const WeightsInfo& info) {
  io::save_safetensors(path, model.state_dict(), weights_metadata(info));
}

void save_sparse_weights(const std::string& path, const io::TensorMap& tensors, int64_t vector,
                         io::Metadata metadata) {
  const io::TensorMap sparse = sparse_tensors(tensors, vector, metadata);
  io::save_safetensors(path, sparse, metadata);
}

void save_int8_weights(const std::string& path, const nn::Module& model,
                       const compress::Int8Layers& layers, const WeightsInfo& info) {
  io::Metadata metadata = weights_metadata(info);
  const io::TensorMap tensors = int8_tensors(model.state_dict(), layers, metadata);
  io::save_safetensors(path, tensors, metadata);
}

void save_compressed_weights(const std::string& path, const nn::Module& model,
                             const compress::Int8Layers& layers, int64_t vector,
                             const WeightsInfo& info) {
  io::Metadata metadata = weights_metadata(info);
  const io::TensorMap some = int8_tensors(model.state_dict(), layers, metadata);
  const io::TensorMap tensors = sparse_tensors(some, vector, metadata);
  io::save_safetensors(path, tensors, metadata);
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
  info.classes = names_in(metadata, "brim.classes", path);
  info.columns = names_in(metadata, "brim.columns", path);
  info.targets = names_in(metadata, "brim.targets", path);
  if (const auto it = metadata.find("brim.input"); it != metadata.end()) {
    const auto list = parse_json(it->second);
    bool good = list.is_array() && list.size() <= kMaxRank;
    uint64_t elements = 1;  // so many fit into memory, and the product into 64 bits
    for (const auto& entry : list) {
      good = good && entry.is_number_unsigned() && entry.get<uint64_t>() <= kMaxElements;
      if (good) elements *= entry.get<uint64_t>();
      good = good && elements <= kMaxElements;
    }
    BRIM_CHECK(good, FileError,
               "[weights] {}: the metadata brim.input is no shape; the file is damaged", path);
    const auto sizes = list.get<std::vector<int64_t>>();
    info.input = Shape(sizes);
  }
  const int64_t size = info.recipe ? info.recipe->input.size : 0;
  BRIM_CHECK(
      size == 0 || info.input.rank() != 3 || info.input == Shape({info.input[0], size, size}),
      FileError,
      "[weights] {}: its network takes inputs {}, and its recipe makes pictures of {} x {}; "
      "the file is damaged",
      path, info.input.str(), size, size);
  return info;
}

void load_weights(const WeightsFile& file, nn::Module& model) {
  const diag::Scope scope("load weights", diag::Cause::file_read);
  try {
    // What the network has not got, or in another shape, is named and not read.
    const StateDict wanted = model.state_dict();
    StateDict state;
    for (const std::string& name : file.names()) {
      const auto found = wanted.find(name);
      const Shape& shape = file.info(name).shape;
      const bool fits = found != wanted.end() && found->second.shape() == shape;
      state[name] = fits ? file.load(name) : zeros({}).expand(shape);
    }
    model.load_state_dict(state);
  } catch (const ValueError& e) {
    raise<FileError>("[weights] {} does not fit the network: {}", file.path(), e.what());
  }
}

void check_finite(const nn::Module& model, const std::string& path) {
  for (const auto& [name, value] : model.state_dict())
    BRIM_CHECK(!is_floating(value.dtype()) || std::isfinite(sum(value.to(f64) * 0).item()),
               FileError, "[train] {}: {} holds a NaN or an infinity; give other weights", path,
               name);
}

}  // namespace brim::train
