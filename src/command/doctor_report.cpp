#include "command/doctor_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "command/format.h"
#include "command/option_names.h"
#include "command/report.h"
#include "command/say.h"
#include "command/training_options.h"
#include "core/device_names.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;
using diag::Cause;
using train::Estimate;

/// What a cause means for who wants to be rid of it.
std::string_view meaning(Cause cause) {
  switch (cause) {
    case Cause::input:
      return "the loader does not bring batches as fast as they are used";
    case Cause::dispatch:
      return "the host takes longer to launch kernels than the device to run them";
    case Cause::copy_to_device:
      return "batches are copied there while nothing computes";
    case Cause::copy_to_host:
      return "values are copied to the host while nothing computes";
    case Cause::staging:
      return "memory that is not pinned is copied twice";
    case Cause::host_read:
      return "the host reads values, and the device waits for it";
    case Cause::synchronize:
      return "the host waits for the device, which then has nothing queued";
    case Cause::full_queue:
      return "the host waits for room in the queue";
    case Cause::file_read:
      return "weights are read";
    case Cause::file_write:
      return "weights are written";
    case Cause::communication:
      return "devices exchange gradients that no computation hides";
    case Cause::peer:
      return "it waits for another device, which is slower or has more to do";
    case Cause::user:
      return "code outside of brim";
    case Cause::host_compute:
      return "the CPU computes what the device waits for";
    case Cause::allocator:
      return "memory is asked from the system";
    case Cause::compile:
      return "steps are recorded and plans made";
    case Cause::checkpoint:
      return "checkpoints are written";
    case Cause::evaluation:
      return "the network is evaluated";
    case Cause::throttle:
      return "heat or power lower the clocks";
    case Cause::stolen:
      return "a thread was ready and had no core: other processes, or more threads than cores";
    case Cause::other:
      return "what nothing tells the cause of";
    case Cause::compute:
      break;
  }
  return "";
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string times(const Estimate& ratio) {
  return fmt::format("{:.2f} times as fast ({:.2f} to {:.2f})", ratio.value, ratio.low, ratio.high);
}

Json estimate_json(const Estimate& e) {
  return {{"value", finite(e.value)}, {"low", finite(e.low)}, {"high", finite(e.high)}};
}

Json diagnosis_json(const train::Diagnosis& d) {
  if (d.runs == 0) return nullptr;  // it was stopped
  Json causes = Json::array();
  for (const train::CauseCost& cost : d.causes)
    causes.push_back({{"cause", diag::name(cost.cause)},
                      {"share", estimate_json(cost.share)},
                      {"seconds_per_step", finite(cost.seconds_per_step)}});
  return {{"runs", d.runs},
          {"seconds_per_step", estimate_json(d.seconds_per_step)},
          {"busy", estimate_json(d.busy)},
          {"causes", causes},
          {"without_input", d.without_input ? estimate_json(*d.without_input) : Json(nullptr)}};
}

/// What was typed of the training itself: all but what changes its speed alone.
std::vector<std::string> training_words(const TrainRequest& request) {
  const TrainArguments& o = request.arguments;
  std::vector<std::string> words;
  if (!o.recipe.empty()) words.push_back(o.recipe);
  const auto add = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(name);
    words.push_back(value);
  };
  add("--data", o.data);
  add("--device", o.device == "auto" ? "" : o.device);
  if (o.batch) add("--batch", std::to_string(*o.batch));
  if (o.epochs) add("--epochs", std::to_string(*o.epochs));
  if (o.steps) add("--steps", std::to_string(*o.steps));
  if (o.lr) add("--lr", fmt::format("{}", *o.lr));
  if (o.seed) add("--seed", std::to_string(*o.seed));
  add("--precision", o.precision);
  if (o.virtual_ranks) add("--virtual-ranks", std::to_string(*o.virtual_ranks));
  if (o.sync_batch_norm) words.emplace_back("--sync-batch-norm");
  if (o.threads > 0) add("--threads", std::to_string(o.threads));
  add("--memory-limit", o.memory_limit);
  return words;
}

std::string command_line(const TrainRequest& request, const train::TrainOptions& options) {
  std::vector<std::string> words = training_words(request);
  for (const std::string& word : speed_options(options)) words.push_back(word);
  std::string line = "brim train";
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

}  // namespace

std::string examined_line(const TrainRequest& request) {
  const train::Recipe& recipe = request.recipe;
  return fmt::format("{}: batch {} of {} on {} in {}", recipe.name, recipe.batch, recipe.data,
                     names_of(request.chosen.devices), recipe.precision);
}

void print_diagnosis(const train::Diagnosis& d, std::string_view device) {
  if (d.runs == 0) return;
  say(stdout, "{:.0f} us a step; {} computes {} of the time\n", 1e6 * d.seconds_per_step.value,
      device, percent(d.busy.value));
  for (const train::CauseCost& cost : d.causes)
    say(stdout, "  {:<15} {:>6} ({} to {}), {:.0f} us a step: {}\n", diag::name(cost.cause),
        percent(cost.share.value), percent(std::max(cost.share.low, 0.0)),
        percent(std::min(cost.share.high, 1.0)), 1e6 * cost.seconds_per_step, meaning(cost.cause));
  if (d.causes.empty())
    say(stdout, "  nothing else takes as much as {} of the time\n",
        percent(train::DoctorOptions().least_share));
  if (d.without_input)
    say(stdout, "if input cost nothing (each step gets the same batch, measured): {}\n",
        times(*d.without_input));
}

std::string trial_line(const train::Trial& trial) {
  if (trial.verdict == train::Verdict::failed)
    return fmt::format("  {}: could not be tried: {}", trial.what,
                       with_option_names(trial.failure));
  return fmt::format("  {}: {}, {} pairs: {}", trial.what, times(trial.speedup), trial.pairs,
                     trial.verdict == train::Verdict::faster ? "kept" : name(trial.verdict));
}

void print_cure(const TrainRequest& request, const train::Cure& cure) {
  if (cure.changes.empty()) {
    say(stdout, "{}\n",
        !cure.failure.empty() ? "none is kept, because together they do not run: " + cure.failure
        : cure.speedup
            ? fmt::format("all changes together are {}, so none is kept", times(*cure.speedup))
            : std::string("no change makes it faster beyond doubt"));
    return;
  }
  say(stdout, "now: ");
  print_diagnosis(cure.after, request.chosen.devices[0].str());
  if (cure.speedup)
    say(stdout, "in all {}; it computed {} of the time before\n", times(*cure.speedup),
        percent(cure.before.busy.value));
  say(stdout, "{}\n  {}\n",
      cure.same_bits ? "the same weights, bit for bit, come from" : "train with",
      command_line(request, cure.options));
}

void print_run(const std::string& folder, const RunDiagnosis& found) {
  say(stdout, "{}: {} stretches between reports, {:.1f} s of training\n", folder,
      found.diagnosis.runs, found.seconds);
  print_diagnosis(found.diagnosis, found.device);
  say(stdout, "`brim doctor RECIPE --fix`, with the options of the run, tries what helps\n");
}

Json run_json(const std::string& folder, const RunDiagnosis& found) {
  return {{"schema", "brim.doctor/1"},
          {"run", folder},
          {"device", found.device},
          {"seconds", found.seconds},
          {"before", diagnosis_json(found.diagnosis)}};
}

Json doctor_json(const TrainRequest& request, const train::Cure& cure, bool fixed) {
  Json json = {{"schema", "brim.doctor/1"},
               {"recipe", request.recipe.name},
               {"data", request.recipe.data},
               {"batch", request.recipe.batch},
               {"device", names_of(request.chosen.devices)},
               {"before", diagnosis_json(cure.before)}};
  if (!fixed) return json;
  Json trials = Json::array();
  for (const train::Trial& trial : cure.trials)
    trials.push_back({{"what", trial.what},
                      {"options", trial.options},
                      {"verdict", name(trial.verdict)},
                      {"speedup", trial.pairs > 0 ? estimate_json(trial.speedup) : Json(nullptr)},
                      {"pairs", trial.pairs},
                      {"failure", trial.failure.empty() ? Json(nullptr) : Json(trial.failure)}});
  json["trials"] = trials;
  json["kept"] = cure.changes;
  json["speedup"] = cure.speedup ? estimate_json(*cure.speedup) : Json(nullptr);
  json["after"] = diagnosis_json(cure.after);
  json["options"] = speed_options(cure.options);
  json["command"] = command_line(request, cure.options);
  return json;
}

}  // namespace brim::command
