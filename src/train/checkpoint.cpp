// A checkpoint holds model.safetensors, optimizer.safetensors, schedule.safetensors, state.json and
// manifest.json, which lists size and XXH64 of the others. The model is a weights file like any
// other: recipe and classes are in its metadata.
#include "train/checkpoint.h"

#include <brim/io/safetensors.h>
#include <brim/version.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/json_text.h"
#include "io/atomic_file.h"
#include "io/hash.h"
#include "io/regular_file.h"
#include "io/safetensors_writer.h"
#include "train/weights_metadata.h"

namespace brim::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFiles[] = {"model.safetensors", "optimizer.safetensors",
                                  "schedule.safetensors", "state.json"};
constexpr uint64_t kFormat = 2;  // 1 knew only ends of epochs

constexpr uint64_t kMostText = uint64_t{256} << 20;  // a million classes have room

Json read_json(const std::string& path) {
  const io::RegularFile file(path, "checkpoint", "a file of the checkpoint, which is damaged");
  BRIM_CHECK(file.bytes() <= kMostText, FileError,
             "[checkpoint] {} holds {} bytes, more than the {} it may; the checkpoint is damaged",
             path, file.bytes(), kMostText);
  std::string text(file.bytes(), '\0');
  file.read(text.data(), text.size(), 0);
  Json json = parse_json<Json>(text);
  BRIM_CHECK(json.is_object(), FileError,
             "[checkpoint] {} is no JSON object; the checkpoint is damaged", path);
  return json;
}

template <class T>
T field(const Json& json, const char* key, const std::string& path) {
  const auto it = json.find(key);
  bool good = it != json.end();
  if constexpr (std::is_same_v<T, std::string>)
    good = good && it->is_string();
  else if constexpr (std::is_same_v<T, double>)
    good = good && (it->is_number() || it->is_null());
  else
    good = good && it->is_number_unsigned();
  BRIM_CHECK(good, FileError, "[checkpoint] {} has no valid '{}'; the checkpoint is damaged", path,
             key);
  if constexpr (std::is_same_v<T, double>)
    if (it->is_null()) return std::numeric_limits<double>::quiet_NaN();
  return it->get<T>();
}

int64_t count(const Json& json, const char* key, const std::string& path) {
  constexpr int64_t kMany = int64_t{1} << 60;
  const auto value = field<uint64_t>(json, key, path);
  BRIM_CHECK(value <= kMany, FileError,
             "[checkpoint] {}: '{}' is out of range; the checkpoint is damaged", path, key);
  return static_cast<int64_t>(value);
}

LossSum loss_sum(const Json& json, const char* sum, const char* steps, const std::string& path) {
  return {field<double>(json, sum, path), count(json, steps, path)};
}

bool is_list_of_names(const Json& json) {
  return json.is_array() &&
         std::all_of(json.begin(), json.end(), [](const Json& entry) { return entry.is_string(); });
}

Json scaler_json(const StateDict& scaler) {
  if (scaler.empty()) return nullptr;
  Json json = Json::object();
  for (const auto& [name, value] : scaler) json[name] = value.item<double>();
  return json;
}

/// Checkpoints of before there was a scaler say nothing.
StateDict scaler_state(const Json& json, const std::string& path) {
  StateDict scaler;
  const auto at = json.find("scaler");
  if (at == json.end() || at->is_null()) return scaler;
  for (const auto& [name, value] : at->items()) {
    BRIM_CHECK(value.is_number(), FileError,
               "[checkpoint] {} has no valid 'scaler'; the checkpoint is damaged", path);
    scaler[name] = Tensor::from<double>({value.get<double>()}, {});
  }
  return scaler;
}

/// Checkpoints of before it was kept say nothing.
std::optional<StepMode> step_mode(const Json& json, const std::string& path) {
  const auto compile = json.find("compile");
  if (compile == json.end()) return {};
  BRIM_CHECK(compile->is_boolean(), FileError,
             "[checkpoint] {} has no valid 'compile'; the checkpoint is damaged", path);
  return StepMode{compile->get<bool>(), field<std::string>(json, "passes", path)};
}

/// Numbers are written so that they read back to the same bits; NaN becomes null.
Json state_json(const Checkpoint& c) {
  const Position& at = c.at;
  Json json = {{"format", kFormat},
               {"version", BRIM_VERSION},
               {"name", c.recipe.name},
               {"epochs", at.epoch},
               {"batch", at.batch},
               {"epoch_steps", at.epoch_steps},
               {"steps", at.steps},
               {"images", at.images},
               {"skipped", at.skipped},
               {"loss_sum", at.unreported.sum},
               {"loss_steps", at.unreported.steps},
               {"epoch_loss_sum", at.epoch_reported.sum},
               {"epoch_loss_steps", at.epoch_reported.steps},
               {"last_loss", std::isfinite(at.last_loss) ? Json(at.last_loss) : Json(nullptr)},
               {"best_steps", c.best.steps},
               {"best_loss", c.best.loss},
               {"random_seed", c.random.seed},
               {"random_offset", c.random.offset},
               {"samples", c.samples},
               {"scaler", scaler_json(c.scaler)},
               {"devices", c.devices},
               {"isa", c.isa},
               {"recipe", c.recipe.toml()},
               {"classes", c.classes}};
  if (c.mode) json.update({{"compile", c.mode->compile}, {"passes", c.mode->passes}});
  return json;
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& c) {
  const std::string at = path + "/";
  std::deque<io::AtomicFile> files;
  for (const char* name : kFiles) files.emplace_back(at + name);
  io::write_safetensors(files[0], c.model, weights_metadata(c.recipe, c.classes));
  io::write_safetensors(files[1], c.optimizer);
  io::write_safetensors(files[2], c.schedule);
  // A class that is named after a folder may be no UTF-8.
  const std::string state = state_json(c).dump(2, ' ', false, Json::error_handler_t::replace);
  BRIM_CHECK(
      state.size() < kMostText, FileError,
      "[checkpoint] {}state.json would hold {} bytes, more than the {} that are read back; use "
      "shorter class names",
      at, state.size() + 1, kMostText);
  files[3].write(state + "\n");
  for (io::AtomicFile& file : files) file.start_writeback();
  for (io::AtomicFile& file : files) file.commit(io::FolderSync::later);
  Json manifest = Json::object();
  for (const char* name : kFiles) {
    const io::FileHash hash = io::hash_file(at + name);
    manifest[name] = {{"bytes", hash.bytes}, {"xxh64", hash.hex}};
  }
  io::write_file_atomically(at + "manifest.json", manifest.dump(2) + "\n");
}

void verify_checkpoint(const std::string& path) {
  const std::string manifest_path = path + "/manifest.json";
  const Json manifest = read_json(manifest_path);
  for (const char* name : kFiles) {
    const std::string file = path + "/" + name;
    const auto entry = manifest.find(name);
    BRIM_CHECK(entry != manifest.end() && entry->is_object(), FileError,
               "[checkpoint] {} does not list {}; the checkpoint is damaged", manifest_path, name);
    const io::FileHash hash = io::hash_file(file);
    const auto bytes = field<uint64_t>(*entry, "bytes", manifest_path);
    BRIM_CHECK(
        hash.bytes == bytes, FileError,
        "[checkpoint] {} holds {} bytes, but the manifest says {}; the checkpoint is damaged", file,
        hash.bytes, bytes);
    BRIM_CHECK(hash.hex == field<std::string>(*entry, "xxh64", manifest_path), FileError,
               "[checkpoint] {} differs from the manifest's hash; the checkpoint is damaged", file);
  }
}

Checkpoint load_checkpoint_state(const std::string& path) {
  const std::string file = path + "/state.json";
  const Json json = read_json(file);
  const uint64_t format = json.contains("format") ? field<uint64_t>(json, "format", file) : 1;
  BRIM_CHECK(format == kFormat, FileError,
             "[checkpoint] {} is of format {}, and this brim reads format {}; go on with the brim "
             "that wrote it, or start anew",
             file, format, kFormat);
  Checkpoint c;
  c.at = {.epoch = count(json, "epochs", file),
          .batch = count(json, "batch", file),
          .epoch_steps = count(json, "epoch_steps", file),
          .steps = count(json, "steps", file),
          .images = count(json, "images", file),
          .skipped = count(json, "skipped", file),
          .unreported = loss_sum(json, "loss_sum", "loss_steps", file),
          .epoch_reported = loss_sum(json, "epoch_loss_sum", "epoch_loss_steps", file),
          .last_loss = field<double>(json, "last_loss", file)};
  c.best = {.steps = count(json, "best_steps", file),
            .loss = field<double>(json, "best_loss", file)};
  c.random = {.seed = field<uint64_t>(json, "random_seed", file),
              .offset = field<uint64_t>(json, "random_offset", file)};
  c.samples = count(json, "samples", file);
  c.scaler = scaler_state(json, file);
  c.devices = field<std::string>(json, "devices", file);
  if (json.contains("isa")) c.isa = field<std::string>(json, "isa", file);
  c.mode = step_mode(json, file);
  c.recipe = parse_recipe(field<std::string>(json, "recipe", file), file);
  c.recipe.name = field<std::string>(json, "name", file);
  const auto classes = json.find("classes");
  BRIM_CHECK(classes != json.end() && is_list_of_names(*classes), FileError,
             "[checkpoint] {} has no valid 'classes'; the checkpoint is damaged", file);
  c.classes = classes->get<std::vector<std::string>>();
  return c;
}

Checkpoint load_checkpoint(const std::string& path) {
  verify_checkpoint(path);
  Checkpoint c = load_checkpoint_state(path);
  c.model = io::load_safetensors(path + "/model.safetensors");
  c.optimizer = io::load_safetensors(path + "/optimizer.safetensors");
  c.schedule = io::load_safetensors(path + "/schedule.safetensors");
  return c;
}

}  // namespace brim::train
