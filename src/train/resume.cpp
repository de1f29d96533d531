// The run's folder at the start: who may write there, and which checkpoint the run goes on from.
#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include <brim/train/weights.h>
#include <fmt/ranges.h>

#include "backend/cpu/runtime/isa.h"
#include "backend/launch_policy.h"
#include "core/check.h"
#include "core/device_names.h"
#include "data/source/image_folder.h"
#include "io/paths.h"
#include "plan/pass.h"
#include "train/build.h"
#include "train/trainer_state.h"

namespace brim::train {
namespace {

namespace fs = std::filesystem;

/// A run goes on only with the recipe it began with; how long, how fast and from where the data and
/// the teacher come may change.
void check_same_recipe(const Recipe& asked, const Recipe& saved, bool any_precision,
                       const std::string& path) {
  BRIM_CHECK(any_precision || asked.precision == saved.precision, ValueError,
             "[resume] {} was trained in {}, and now it is {}; to change it, ask for "
             "Recipe::precision={} (TrainOptions::change_precision), or resume with {}",
             path, saved.precision, asked.precision, asked.precision, saved.precision);
  BRIM_CHECK(asked.distill.teacher.empty() == saved.distill.teacher.empty(), ValueError,
             "[resume] {} was trained {} a teacher (Recipe::distill), and now there is {}; resume "
             "with the same recipe and options, or start anew",
             path, saved.distill.teacher.empty() ? "without" : "with",
             asked.distill.teacher.empty() ? "none" : "one");
  Recipe a = asked, b = saved;
  a.precision = b.precision;
  a.virtual_ranks = b.virtual_ranks;  // compared by itself
  a.epochs = b.epochs;
  a.data = b.data;
  if (a.prune.is_of_channels() && b.prune.is_of_channels())
    a.channels = b.channels;  // what is left
  if (!a.distill.teacher.empty() && !b.distill.teacher.empty())
    a.distill.teacher = b.distill.teacher;
  const std::string x = a.learned_toml(), y = b.learned_toml();
  if (x == y) return;
  const auto line = [](const std::string& text, size_t at) {
    const size_t begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  size_t at = 0;
  while (at < std::min(x.size(), y.size()) && x[at] == y[at]) ++at;
  at -= at > 0;
  raise<ValueError>(
      "[resume] {} was trained with '{}', and now it is '{}'; resume with the same recipe and "
      "options, or start anew",
      path, line(y, at), line(x, at));
}

/// Labels must mean the same as before.
void check_same_classes(const std::vector<std::string>& now, const std::vector<std::string>& saved,
                        const std::string& data, const std::string& path) {
  if (same_classes(now, saved)) return;
  size_t at = 0;
  while (at < std::min(now.size(), saved.size()) && same_classes({now[at]}, {saved[at]})) ++at;
  const auto name = [&](const std::vector<std::string>& names) {
    return at < names.size() ? "'" + names[at] + "'" : std::string("none");
  };
  raise<ValueError>(
      "[resume] {} was trained on {} classes, and {} has {}: class {} was {} and is {} now; give "
      "the data it was trained on (Recipe::data), or start anew",
      path, saved.size(), data, now.size(), at, name(saved), name(now));
}

/// Those that a checkpoint names. Throws FileError.
std::vector<Device> saved_devices(const std::string& saved, const std::string& path) {
  try {
    return Device::list(saved);
  } catch (const DeviceError&) {
    raise<FileError>("[resume] {} names no devices: '{}'; the checkpoint is damaged", path, saved);
  }
}

std::set<DeviceKind> kinds_of(const std::vector<Device>& devices) {
  std::set<DeviceKind> kinds;
  for (const Device device : devices) kinds.insert(device.kind);
  return kinds;
}

bool computes_on_cpu(const std::vector<Device>& devices) {
  return std::any_of(devices.begin(), devices.end(),
                     [](const Device& d) { return !backend::has_own_kernels(d.kind); });
}

bool has_isa(const std::string& name) {
  const std::vector<std::string>& isas = cpu::available_isas();
  return std::find(isas.begin(), isas.end(), name) != isas.end();
}

std::string arithmetic_of(const Recipe& recipe) {
  return cpu::arithmetic(recipe.precision == "bf16");
}

/// How a run that goes on stays with the instruction set that it had, where this CPU has it.
std::string cure_for(const std::string& isa) {
  if (isa == cpu::available_isas().front() + "+bf16") return "; to stay with it: no BRIM_CPU_ISA";
  return has_isa(isa) ? "; to stay with it: BRIM_CPU_ISA=" + isa : "";
}

/// For messages.
std::string words(const StepMode& mode) {
  if (!mode.compile) return "TrainOptions::compile=off";
  return "TrainOptions::compile=on" +
         (mode.passes.empty() ? "" : " TrainOptions::passes=" + mode.passes);
}

/// Passes that are not known any more, as of a run of another version, are other ones.
bool same_passes(const std::string& now, const std::string& saved) {
  const plan::PassSelection chosen(now);
  try {
    return chosen == plan::PassSelection(saved);
  } catch (const ValueError&) {
    return false;
  }
}

/// Whether steps are computed as before; what they were before this was kept is unknown.
bool check_same_mode(const StepMode& now, const std::optional<StepMode>& saved, bool any,
                     const std::string& path) {
  if (!saved || (!now.compile && !saved->compile)) return true;
  if (now.compile == saved->compile && same_passes(now.passes, saved->passes)) return true;
  BRIM_CHECK(
      any, ValueError,
      "[resume] {} was trained with {}, and now it is {}, whose sums round otherwise; resume "
      "with the same, or start anew",
      path, words(*saved), words(now));
  return false;
}

}  // namespace

void Trainer::State::prepare_out() {
  const std::string& from = options.resume;
  out = options.out.empty() ? from : options.out;
  const bool goes_on = !from.empty() && io::real_path(out) == io::real_path(from);
  std::error_code ignored;
  BRIM_CHECK(
      from.empty() || !fs::exists(from + "/manifest.json", ignored), FileError,
      "[resume] {} is a checkpoint itself; give the folder that it lies in, and the run goes "
      "on from the newest one there",
      from);
  if (!from.empty() && !fs::is_directory(from, ignored)) {
    BRIM_CHECK(goes_on && !options.out.empty() && !fs::exists(from, ignored), FileError,
               "[resume] there is no folder {}; to begin there when nothing is there yet, give "
               "TrainOptions::out={} too",
               from, from);
  }
  if (!out.empty()) {
    data::check_outside(recipe.data, out);
    made.emplace(out);
    make_folder(out);
    lock.emplace(out);
  }
  FoundCheckpoint found;
  if (!from.empty()) found = find_checkpoint(from);
  if (!out.empty() && (!goes_on || found.path.empty())) {
    BRIM_CHECK(list_checkpoints(out).empty(), FileError,
               "[train] {} holds a checkpoint already; go on from it with TrainOptions::resume={}, "
               "or choose "
               "another folder",
               out, out);
    BRIM_CHECK(!fs::exists(out + "/" + kWeightsFile, ignored), FileError,
               "[train] {} holds a trained network already ({}); choose another folder, or move it "
               "away",
               out, kWeightsFile);
  }
  for (const auto& damaged : found.damaged)
    if (options.warn)
      options.warn(fmt::format("{} is damaged and not used: {}", damaged.path, damaged.reason));
  if (!found.path.empty()) {
    if (!found.damaged.empty() && options.warn)
      options.warn(fmt::format("going on from the older checkpoint {}", found.path));
    load(found.path);
  }
  if (out.empty()) return;
  // Nothing is changed in the folder before this run is sure to begin.
  if (lock->held())
    remove_leftovers(out);
  else if (options.warn)
    options.warn(fmt::format(
        "the file system of {} has no locks; make sure that no other run uses this folder", out));
  if (goes_on)
    for (const auto& damaged : found.damaged) set_aside(damaged.path);
  if (!fs::exists(checkpoint_path(out, best.steps), ignored)) best = {};
}

void Trainer::State::load(const std::string& path) {
  const RunState c = load_checkpoint(path);
  check_same_recipe(recipe, c.recipe, options.change_precision, path);
  if (recipe.precision != c.recipe.precision && options.warn)
    options.warn(fmt::format("{} was trained in {} and goes on in {}", path, c.recipe.precision,
                             recipe.precision));
  check_same_classes(train->data.names, c.classes, recipe.data, path);
  BRIM_CHECK(
      c.columns == train->data.columns && c.targets == train->data.targets, ValueError,
      "[resume] {} was trained on the columns {} of a table for {}, and {} has others, or in "
      "another order; name them in input.columns and input.targets, or give the data it was "
      "trained on (Recipe::data)",
      path, fmt::join(c.columns, ", "), fmt::join(c.targets, ", "), recipe.data);
  if (!check_same_mode(mode(), c.mode, options.change_compile, path) && options.warn)
    options.warn(fmt::format(
        "{} was trained with {} and goes on with {}: its weights will differ in the last bits from "
        "those of a run that was not stopped",
        path, words(*c.mode), words(mode())));
  // How many there are changes nothing: the parts of a batch are as many as they were.
  const std::vector<Device> before = saved_devices(c.devices, path);
  if (c.virtual_ranks == 1 && before.size() > 1 && options.warn)
    options.warn(fmt::format(
        "{} was trained on {} by an older brim, which shared batches otherwise: its weights will "
        "differ in the last bits",
        path, c.devices));
  if (kinds_of(devices) != kinds_of(before) && options.warn)
    options.warn(fmt::format(
        "{} was trained on {} and goes on on {}; to stay there: TrainOptions::devices={}", path,
        c.devices, names_of(devices), c.devices));
  else if (computes_on_cpu(devices) && !c.isa.empty() && c.isa != arithmetic_of(recipe) &&
           c.recipe.precision == recipe.precision && options.warn)
    options.warn(fmt::format(
        "{} was trained with the instruction set {} and goes on with {}: its weights will differ "
        "in the last bits from those of a run that was not stopped{}",
        path, c.isa, arithmetic_of(recipe), cure_for(c.isa)));
  BRIM_CHECK(recipe.epochs >= c.at.epoch + (c.at.batch > 0), ValueError,
             "[resume] {} has {} epochs behind it, more than the {} asked for; to go on, ask for "
             "more than {} (Recipe::epochs)",
             path, c.at.epoch, recipe.epochs, c.at.epoch);
  if (c.virtual_ranks != virtual_ranks && takes_one_part(recipe) && options.warn)
    options.warn(fmt::format(
        "{} was trained with batches in {} parts and goes on with {}: its weights will differ in "
        "the last bits from those of a run that was not stopped",
        path, c.virtual_ranks, virtual_ranks));
  BRIM_CHECK(c.virtual_ranks == virtual_ranks || takes_one_part(recipe), ValueError,
             "[resume] {} was trained with batches in {} parts, and now it is {}; go on with "
             "Recipe::virtual_ranks={}, or start anew",
             path, c.virtual_ranks, virtual_ranks, c.virtual_ranks);
  const int64_t samples = train->loader.samples() * world_size();
  BRIM_CHECK(c.at.batch == 0 || c.samples == samples, ValueError,
             "[resume] {} lies amid an epoch of {} samples, and {} has {}; give the data it was "
             "trained on (Recipe::data)",
             path, c.samples, recipe.data, samples);
  BRIM_CHECK(c.at.batch <= train->loader.batches(), FileError,
             "[resume] {} lies after batch {} of {}; the checkpoint is damaged", path, c.at.batch,
             train->loader.batches());
  try {
    if (c.recipe.prune.is_of_channels()) take_channels(c.recipe.channels);
    model->load_state_dict(c.model);
    optimizer->load_state_dict(c.optimizer);
    schedule->load_state_dict(c.schedule);
    if (scaler && !c.scaler.empty()) scaler->load_state_dict(c.scaler);
    if (!c.output_groups.empty()) compress::check_groups(*model, c.output_groups);
  } catch (const ValueError& e) {
    raise<FileError>("[resume] {} does not fit the recipe: {}", path, e.what());
  }
  Generator::global().set_state(c.random);
  at = c.at;
  best = c.best;
  output_groups = c.output_groups;
  rewind = c.rewind;
  const bool needs_rewind = at.round > 0 || at.epoch > recipe.prune.rewind_epoch;
  BRIM_CHECK(
      !recipe.prune.is_iterative() ||
          (at.round <= recipe.prune.rounds && (!rewind.empty() || !needs_rewind)),
      FileError, "[resume] {} lies in round {} of {} of pruning{}; the checkpoint is damaged", path,
      at.round, recipe.prune.rounds, rewind.empty() ? ", and holds nothing to rewind to" : "");
  BRIM_CHECK(c.teacher.empty() || teacher_hash.empty() || c.teacher == teacher_hash, ValueError,
             "[resume] {} was taught by another network than {}; give the same teacher "
             "(Recipe::distill.teacher), or start anew",
             path, recipe.distill.teacher);
  resumed_from = path;
  steps_before = c.at.steps;
}

RunState Trainer::State::snapshot() const {
  return {.at = at,
          .best = {},
          .random = Generator::global().state(),
          .recipe = recipe,
          .samples = train->loader.samples() * world_size(),
          .virtual_ranks = virtual_ranks,
          .devices = names_of(devices),
          .isa = arithmetic_of(recipe),
          .mode = mode(),
          .classes = train->data.names,
          .columns = train->data.columns,
          .targets = train->data.targets,
          .input = input,
          .model = model->state_dict(),
          .optimizer = optimizer->state_dict(),
          .schedule = schedule->state_dict(),
          .scaler = scaler ? scaler->state_dict() : StateDict(),
          .output_groups = output_groups,
          .rewind = rewind,
          .teacher = teacher_hash};
}

Recipe checkpoint_recipe(const std::string& folder) {
  const std::string path = find_checkpoint(folder).path;
  BRIM_CHECK(
      !path.empty(), FileError,
      "[resume] {} holds no checkpoint that says which recipe to go on with; give the folder "
      "that TrainOptions::out named, or name a RECIPE, too, with TrainOptions::out={} "
      "TrainOptions::resume={}",
      folder, folder, folder);
  return load_checkpoint_state(path).recipe;
}

}  // namespace brim::train
