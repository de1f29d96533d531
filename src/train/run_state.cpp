// A Trainer's checkpoint holds model.safetensors, optimizer.safetensors, schedule.safetensors,
// state.json and, where pruning goes back to it in rounds, rewind.safetensors. The model is a
// weights file like any other: recipe and classes are in its metadata.
#include "train/run_state.h"

#include <brim/io/safetensors.h>
#include <brim/version.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "train/checkpoint_files.h"
#include "train/checkpoint_json.h"
#include "train/weights_metadata.h"

namespace brim::train {
namespace {

constexpr const char* kRewindFile = "rewind.safetensors";
constexpr const char* kFiles[] = {"model.safetensors", "optimizer.safetensors",
                                  "schedule.safetensors"};

LossSum loss_sum(const Json& json, const char* sum, const char* steps, const std::string& path) {
  return {json_field<double>(json, sum, path), json_count(json, steps, path)};
}

std::vector<std::string> names(const Json& json, const char* key, const std::string& path) {
  const auto list = json.find(key);
  BRIM_CHECK(list != json.end() && list->is_array() &&
                 std::all_of(list->begin(), list->end(),
                             [](const Json& entry) { return entry.is_string(); }),
             FileError, "[checkpoint] {} has no valid '{}'; the checkpoint is damaged", path, key);
  return list->get<std::vector<std::string>>();
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
    scaler[name] = Tensor::from<double>({value.get<double>()}, {}, Device::cpu());
  }
  return scaler;
}

/// Checkpoints of runs that do not prune in vectors say nothing.
compress::OutputGroups output_groups(const Json& json, const std::string& path) {
  compress::OutputGroups groups;
  const auto at = json.find("output_groups");
  if (at == json.end()) return groups;
  bool is_right = at->is_object();
  for (const auto& [name, order] : at->items()) {
    is_right = is_right && order.is_array() &&
               std::ranges::all_of(order, [](const Json& o) { return o.is_number_integer(); });
    if (is_right) groups[name] = order.get<std::vector<int64_t>>();
  }
  BRIM_CHECK(is_right, FileError,
             "[checkpoint] {} has no valid 'output_groups'; the checkpoint is damaged", path);
  return groups;
}

/// Checkpoints of before it was kept say nothing.
std::optional<StepMode> step_mode(const Json& json, const std::string& path) {
  const auto compile = json.find("compile");
  if (compile == json.end()) return {};
  BRIM_CHECK(compile->is_boolean(), FileError,
             "[checkpoint] {} has no valid 'compile'; the checkpoint is damaged", path);
  return StepMode{compile->get<bool>(), json_field<std::string>(json, "passes", path)};
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// Numbers are written so that they read back to the same bits; NaN becomes null.
Json state_json(const RunState& c) {
  const Position& at = c.at;
  Json json = {{"format", kCheckpointFormat},
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
               {"last_loss", number(at.last_loss)},
               {"best_score", number(at.best_score)},
               {"epochs_since_best", at.epochs_since_best},
               {"best_steps", c.best.steps},
               {"best_loss", c.best.score},
               {"random_seed", c.random.seed},
               {"random_offset", c.random.offset},
               {"samples", c.samples},
               {"virtual_ranks", c.virtual_ranks},
               {"scaler", scaler_json(c.scaler)},
               {"devices", c.devices},
               {"isa", c.isa},
               {"recipe", c.recipe.learned_toml()},
               {"classes", c.classes},
               {"columns", c.columns},
               {"targets", c.targets}};
  if (!c.output_groups.empty()) json["output_groups"] = c.output_groups;
  if (at.round > 0) json["round"] = at.round;
  if (!c.teacher.empty()) json["teacher"] = c.teacher;
  if (c.mode) json.update({{"compile", c.mode->compile}, {"passes", c.mode->passes}});
  return json;
}

}  // namespace

void write_checkpoint(const std::string& path, const RunState& c) { writer_of(c)(path, c.best); }

Snapshot snapshot_of(RunState state, bool background, CheckpointShards* shards) {
  std::vector<TensorFile> files;
  files.push_back(
      {"model", std::move(state.model),
       weights_metadata({state.recipe, state.classes, state.columns, state.targets, state.input}),
       /*may_be_cut=*/true});
  files.push_back({"optimizer", std::move(state.optimizer), {}, /*may_be_cut=*/true});
  files.push_back({"schedule", std::move(state.schedule), {}});
  if (!state.rewind.empty()) files.push_back({"rewind", state.rewind, {}});
  if (shards) shards->cut(files, state.at.steps);
  std::vector<StateDict*> tensors{&state.scaler};
  for (TensorFile& file : files) tensors.push_back(&file.tensors);
  const bool is_copy = background && copy_to_host(tensors);
  const auto write = [c = std::move(state), files = std::move(files), shards](
                         const std::string& path, const BestCheckpoint& best) mutable {
    c.best = best;
    // A class that is named after a folder may be no UTF-8.
    const std::string text = state_json(c).dump(2, ' ', false, Json::error_handler_t::replace);
    write_checkpoint_files(shards, path, files, text + "\n");
  };
  return {write, is_copy};
}

CheckpointWriter writer_of(RunState state) {
  return snapshot_of(std::move(state), /*background=*/false).write;
}

RunState load_checkpoint_state(const std::string& path) {
  const std::string file = path + "/state.json";
  const Json json = read_checkpoint_json(file);
  BRIM_CHECK(!json.contains("objects"), FileError,
             "[checkpoint] {} was written by a program's own loop (train::Checkpoint); go on with "
             "that program",
             file);
  const uint64_t format = json.contains("format") ? json_field<uint64_t>(json, "format", file) : 1;
  check_format(format, file);
  RunState c;
  c.at = {.epoch = json_count(json, "epochs", file),
          .batch = json_count(json, "batch", file),
          .epoch_steps = json_count(json, "epoch_steps", file),
          .steps = json_count(json, "steps", file),
          .images = json_count(json, "images", file),
          .skipped = json_count(json, "skipped", file),
          .unreported = loss_sum(json, "loss_sum", "loss_steps", file),
          .epoch_reported = loss_sum(json, "epoch_loss_sum", "epoch_loss_steps", file),
          .last_loss = json_field<double>(json, "last_loss", file)};
  if (json.contains("best_score")) {  // not in those of before there was a validation split
    c.at.best_score = json_field<double>(json, "best_score", file);
    c.at.epochs_since_best = json_count(json, "epochs_since_best", file);
  }
  c.best = read_best(json, file);
  c.random = read_random(json, file);
  c.samples = json_count(json, "samples", file);
  if (json.contains("virtual_ranks")) c.virtual_ranks = json_count(json, "virtual_ranks", file);
  c.scaler = scaler_state(json, file);
  c.output_groups = output_groups(json, file);
  if (json.contains("round")) c.at.round = json_count(json, "round", file);
  if (json.contains("teacher")) c.teacher = json_field<std::string>(json, "teacher", file);
  c.devices = json_field<std::string>(json, "devices", file);
  if (json.contains("isa")) c.isa = json_field<std::string>(json, "isa", file);
  c.mode = step_mode(json, file);
  c.recipe = parse_recipe(json_field<std::string>(json, "recipe", file), file);
  c.recipe.name = json_field<std::string>(json, "name", file);
  c.classes = names(json, "classes", file);
  if (json.contains("columns")) {  // not in those of before there were tables
    c.columns = names(json, "columns", file);
    c.targets = names(json, "targets", file);
  }
  return c;
}

RunState load_checkpoint(const std::string& path) {
  verify_checkpoint(path, kFiles);
  RunState c = load_checkpoint_state(path);
  c.model = io::load_safetensors(path + "/model.safetensors");
  c.optimizer = io::load_safetensors(path + "/optimizer.safetensors");
  c.schedule = io::load_safetensors(path + "/schedule.safetensors");
  if (std::filesystem::exists(path + "/" + kRewindFile))
    c.rewind = io::load_safetensors(path + "/" + kRewindFile);
  return c;
}

}  // namespace brim::train
