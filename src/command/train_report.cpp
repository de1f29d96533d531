#include "command/train_report.h"

#include <brim/core/allocator.h>
#include <brim/core/threads.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "command/doctor_report.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/monitor_report.h"
#include "command/op_report.h"
#include "command/reconciliation.h"
#include "command/report.h"
#include "command/say.h"
#include "core/clock.h"
#include "core/device_names.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {
using Json = nlohmann::ordered_json;
}  // namespace

const char* counted(const train::Trainer& trainer) {
  return trainer.loader().has_pictures() ? "img" : "samples";
}

namespace {

constexpr size_t kKeptOps = 200;

/// Of all processes; those of one with several devices are its ranks.
int ranks_of(const TrainRequest& request) {
  return request.launched.is_distributed() ? request.launched.size
                                           : static_cast<int>(request.chosen.devices.size());
}

/// What becomes of a picture that cannot be decoded, which differs from Recipe::input.on_corrupt
/// where ranks train on equal parts of a batch.
const char* on_corrupt(const train::Trainer& trainer) {
  switch (trainer.loader().options().on_error) {
    case data::OnError::raise:
      return "raise";
    case data::OnError::skip:
      return "skip";
    case data::OnError::replace:
      return "replace";
  }
  return "";
}

/// "vector:32, 75.00 % zeros in each layer that takes it".
std::string pruning_line(const train::PruneRecipe& prune) {
  if (prune.is_of_channels())
    return fmt::format("channels, {:.2f} % of them left out", 100 * prune.sparsity);
  const bool is_n_of_m = prune.pattern.find(':') != std::string::npos && prune.pattern[0] != 'v';
  std::string line = prune.pattern;
  if (!is_n_of_m)
    line += fmt::format(", {:.2f} % zeros in each layer that takes it", 100 * prune.sparsity);
  if (prune.is_iterative())
    line += fmt::format(", in {} {}, each from {}", prune.rounds,
                        prune.rounds == 1 ? "round" : "rounds",
                        prune.rewind == "weights" ? "earlier weights" : "an earlier learning rate");
  return line;
}

}  // namespace

void print_start(const TrainRequest& request, const train::Trainer& trainer) {
  const train::Recipe& recipe = request.recipe;
  const std::vector<Device>& devices = request.chosen.devices;
  say(stdout, "{}: {} {} of {}, {} epochs of batch {} on {} in {}, seed {}\n", recipe.name,
      trainer.loader().samples() * ranks_of(request),
      trainer.loader().has_pictures() ? "images" : "samples", recipe.data, recipe.epochs,
      recipe.batch, names_of(devices), recipe.precision, recipe.seed);
  if (request.launched.is_distributed())
    say(stdout, "{} ranks ({}), {} on this host; a batch in {} parts\n", request.launched.size,
        request.launched.launcher, request.launched.local_size, trainer.virtual_ranks());
  else if (devices.size() > 1)
    say(stdout, "{} ranks, one for each device; a batch in {} parts\n", devices.size(),
        trainer.virtual_ranks());
  else if (trainer.virtual_ranks() > 1)
    say(stdout, "a batch in {} parts\n", trainer.virtual_ranks());
  say(stdout, "input: {}\n", trainer.input());
  if (recipe.precision == "tf32" && devices[0].kind != DeviceKind::cuda)
    say(stdout, "tf32 only changes the matrix units of cuda devices; on {} it is fp32\n",
        names_of(devices));
  if (!recipe.distill.teacher.empty())
    say(stdout, "teacher: {}, {:g} % of the loss\n", recipe.distill.teacher,
        100 * recipe.distill.weight);
  if (!recipe.prune.pattern.empty()) say(stdout, "prune: {}\n", pruning_line(recipe.prune));
  if (!trainer.resumed_from().empty())
    say(stdout, "going on from {}, after step {}\n", trainer.resumed_from(),
        trainer.steps_before());
  else if (!request.arguments.resume.empty())
    say(stdout, "{} holds no checkpoint yet: beginning anew\n", request.arguments.resume);
  std::fflush(stdout);
}

void print_result(const TrainRequest& request, const train::Trainer& trainer,
                  const train::TrainResult& result, bool trained, bool failed) {
  const train::Recipe& recipe = request.recipe;
  say(stdout, "{} steps in {:.1f} s: {:.0f} {}/s, {:.0f} us for the median step\n", result.steps,
      result.seconds, result.images_per_s, counted(trainer), result.us_per_step);
  if (trained && result.steps == 0 && !result.stopped_early && !result.validation)
    say(stdout, "all {} epochs were trained before; --epochs N goes on\n", recipe.epochs);
  if (result.loss_scale > 0) say(stdout, "loss scale {} at the end\n", result.loss_scale);
  if (result.skipped > 0)
    say(stdout, "{} corrupt samples were {}\n", result.skipped,
        trainer.loader().options().on_error == data::OnError::replace ? "replaced by others"
                                                                      : "left out");
  if (result.checkpoint_failures > 0)
    say(stdout, "{} checkpoints could not be written, {} were\n", result.checkpoint_failures,
        result.checkpoints);
  if (result.heat_pauses > 0)
    say(stdout, "paused {} times for {:.1f} s because of heat (--max-temperature {})\n",
        result.heat_pauses, result.heat_seconds, request.arguments.max_temperature.value_or(0));
  if (result.stopped_early)
    say(stdout, "stopped after epoch {}: no better one in {} epochs\n", result.epochs_done,
        recipe.validation.patience);
  if (result.test)
    say(stdout, "{}", Lines{evaluation_table(*result.test, "test")});
  else if (result.validation)
    say(stdout, "{}validation{}: {}\n",
        failed ? "" : fmt::format("{} has no test split; ", recipe.data),
        left_out(*result.validation), metrics_line(*result.validation));
  else if (!result.stopped && !failed)
    say(stdout, "{} has no test split, so nothing is known of how well it does there\n",
        recipe.data);
  if (request.arguments.explain) say(stdout, "{}", Lines{result.plan});
  for (const std::string& line : trainer.loader().decisions()) say(stdout, "loader: {}\n", line);
  for (const auto& [device, account, recorded] : result.accounts) {
    say(stdout, "where the time of training went on {}, {}\n{}", device.str(),
        how_steps_ran(result.compile), Lines{account.table()});
    if (recorded < 1)
      say(stdout, "  of {:.1f} % of this time there are records, the rest is charged alike\n",
          100 * recorded);
  }
  if (const std::string line = dearest_line(result.ops); !line.empty())
    say(stdout, "{}\n", Lines{line});
  if (const auto workers = trainer.loader().worker_accounts(); !workers.empty())
    say(stdout, "  beside it {}\n", data::describe(workers));
}

Json energy_json(const TrainRequest& request, const train::TrainResult& result,
                 const std::optional<diag::MonitorSummary>& sensors) {
  if (!sensors || result.seconds <= 0) return nullptr;
  Json joules = Json::object();
  double all = 0;
  for (const auto& [name, watts] : mean_watts(*sensors)) {
    joules[name] = watts * result.seconds;
    all += watts * result.seconds;
  }
  if (joules.empty()) return nullptr;
  Json json = {{"joules", joules}};
  const bool has_all = result.images > 0 && !request.launched.is_distributed();
  json["joules_per_sample"] =
      has_all ? Json(all / static_cast<double>(result.images)) : Json(nullptr);
  return json;
}

std::string energy_line(const Json& energy) {
  std::string parts;
  for (const auto& [name, joules] : energy["joules"].items())
    parts += fmt::format("{}{:.0f} J on {}", parts.empty() ? "" : ", ", joules.get<double>(), name);
  if (energy["joules_per_sample"].is_null()) return "energy: " + parts;
  return fmt::format("energy: {}; {:.3g} J a sample", parts,
                     energy["joules_per_sample"].get<double>());
}

Json result_json(const TrainRequest& request, const train::Trainer& trainer,
                 const train::TrainResult& result, double startup_ms, const RunPhases& phases,
                 const std::optional<diag::MonitorSummary>& sensors) {
  const train::Recipe& r = request.recipe;
  const ChosenDevices& chosen = request.chosen;
  Json json;
  json["recipe"] = r.name;
  json["data"] = r.data;
  json["device"] = names_of(chosen.devices);
  json["device_choice"] = chosen.json();
  json["ranks"] = {{"world_size", ranks_of(request)},
                   {"virtual_ranks", trainer.virtual_ranks()},
                   {"launcher", request.launched.launcher}};
  json["precision"] = r.precision;
  json["loss_scale"] = result.loss_scale > 0 ? Json(result.loss_scale) : Json(nullptr);
  json["images_per_s"] = result.images_per_s;
  json["us_per_step"] = result.us_per_step;
  json["steps"] = result.steps;
  json["total_steps"] = result.total_steps;
  json["total_images"] = result.total_images;
  json["epochs"] = result.epochs_done;
  json["batch"] = r.batch;
  json["final_loss"] = finite(result.final_loss);
  const Json test = result.test ? to_json(*result.test) : Json(nullptr);
  json["task"] = r.task;
  json["accuracy"] = result.test ? test["metrics"].value("accuracy", Json(nullptr)) : test;
  json["metrics"] = result.test ? test["metrics"] : test;
  json["classes"] = result.test ? test["classes"] : test;
  json["per_class"] = result.test ? test["per_class"] : test;
  json["confusion"] = result.test ? test["confusion"] : test;
  json["most_wrong"] = result.test ? test["most_wrong"] : test;
  json["test_loss"] = result.test ? test["loss"] : test;
  json["test_samples"] = result.test ? test["samples"] : test;
  json["test_skipped"] = result.test ? test["skipped"] : test;
  json["validation"] = result.validation ? to_json(*result.validation) : Json(nullptr);
  json["stopped_early"] = result.stopped_early;
  json["compile"] = to_json(result.compile);
  json["account"] = to_json(result.account);
  for (const auto& [device, account, recorded] : result.accounts) {
    json["accounts"][device.str()] = to_json(account);
    json["recorded"][device.str()] = recorded;
  }
  json["monitor"] = sensors ? to_json(*sensors) : Json(nullptr);
  json["energy"] = energy_json(request, result, sensors);
  json["plan"] = timeline_json(result.timeline);
  json["reconciliation"] = reconciliation_json(result, sensors);
  json["seed"] = r.seed;
  json["peak_memory"] = Allocator::of(chosen.devices[0]).stats().peak_live;
  json["seconds"] = result.seconds;
  json["startup_ms"] = startup_ms;
  json["phases"] = phases.json();
  json["threads"] = num_threads();
  json["workers"] = trainer.loader().workers();
  json["loader"] = {{"workers", trainer.loader().workers()},
                    {"slots", trainer.loader().slots()},
                    {"worker_seconds", to_json(trainer.loader().worker_accounts())},
                    {"decisions", trainer.loader().decisions()}};
  json["input"] = {{"augment_on", result.augmented_on_device ? "device" : "host"},
                   {"data_on_device", result.resident_bytes > 0},
                   {"on_corrupt", on_corrupt(trainer)},
                   {"resident_bytes", result.resident_bytes}};
  json["skipped"] = result.skipped;
  json["resumed_from"] =
      trainer.resumed_from().empty() ? Json(nullptr) : Json(trainer.resumed_from());
  json["checkpoints"] = result.checkpoints;
  json["checkpoint_failures"] = result.checkpoint_failures;
  json["heat"] = nullptr;
  if (const auto& limit = request.arguments.max_temperature)
    json["heat"] = {{"max_temperature_c", *limit},
                    {"pauses", result.heat_pauses},
                    {"seconds", result.heat_seconds}};
  json["doctor"] = request.cure ? doctor_json(request, *request.cure, true) : Json(nullptr);
  json["stopped"] = result.stopped;
  json["time"] = unix_seconds();
  json["versions"] = build_versions();
  // Last, for its tensors are no part of the peak. Who has no folder makes no report of it.
  DeviceRoof roof;
  if (!request.arguments.folder().empty() && !result.ops.empty() && !result.stopped)
    roof = device_roof(chosen.devices[0], r.precision);
  json["roof"] = roof_json(roof);
  json["ops"] = ops_json(result.ops, kKeptOps, roof);
  return json;
}

std::string resume_hint(const TrainArguments& o, const train::Trainer& trainer,
                        const train::TrainResult& result) {
  const std::string& folder = o.folder();
  if (folder.empty())
    return fmt::format(
        "stopped at step {}; nothing was kept; with --out DIR a stopped run can be "
        "resumed",
        result.total_steps);
  const std::vector<std::string> kept = train::list_checkpoints(folder);
  if (kept.empty() && trainer.resumed_from().empty())
    return fmt::format("stopped at step {}; nothing was kept: {} holds no checkpoint",
                       result.total_steps, folder);
  const std::string last = kept.empty() ? trainer.resumed_from() : kept.front();
  const bool all = last.ends_with(train::checkpoint_path("", result.total_steps));
  std::string command = "brim train --resume " + shell_word(kept.empty() ? o.resume : folder);
  if (kept.empty()) command += " --out " + shell_word(folder);
  if (o.steps) {  // those that the checkpoint lacks
    const int64_t end = trainer.steps_before() + *o.steps;
    const int64_t held =
        kept.empty() ? trainer.steps_before() : std::stoll(last.substr(last.rfind('-') + 1));
    command += fmt::format(" --steps {}", end - held);
  }
  return fmt::format("stopped at step {}{}; to go on: {}{}", result.total_steps,
                     all ? "" : fmt::format(", the last checkpoint is {}", last), command,
                     o.repeated);
}

std::string kept_hint(const TrainArguments& o) {
  const std::string& folder = o.folder();
  const std::vector<std::string> kept =
      folder.empty() ? std::vector<std::string>{} : train::list_checkpoints(folder);
  if (kept.empty()) return "";
  return fmt::format("; {} is kept, to go on: brim train --resume {}{}", kept.front(),
                     shell_word(folder), o.repeated);
}

}  // namespace brim::command
