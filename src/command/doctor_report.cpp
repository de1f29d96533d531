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

Json evidence_json(const train::Evidence& e) {
  if (e.cpus == 0) return nullptr;
  const auto known = [](const std::optional<double>& value) {
    return value ? finite(*value) : Json(nullptr);
  };
  return {{"workers", to_json(e.workers)},
          {"worker_count", e.worker_count},
          {"cpus", e.cpus},
          {"cores", known(e.cores)},
          {"other_cores", known(e.other_cores)},
          {"throttled", known(e.throttled)},
          {"memory_pressure", known(e.memory_pressure)},
          {"io_pressure", known(e.io_pressure)},
          {"storage", known(e.storage)},
          {"eager", e.eager.empty() ? Json(nullptr) : Json(e.eager)}};
}

Json diagnosis_json(const train::Diagnosis& d) {
  if (d.runs == 0) return nullptr;  // it was stopped
  Json causes = Json::array();
  for (const train::CauseCost& cost : d.causes)
    causes.push_back({{"cause", diag::name(cost.cause)},
                      {"share", estimate_json(cost.share)},
                      {"seconds_per_step", finite(cost.seconds_per_step)},
                      {"because", cost.because}});
  return {
      {"runs", d.runs},
      {"seconds_per_step", estimate_json(d.seconds_per_step)},
      {"busy", estimate_json(d.busy)},
      {"causes", causes},
      {"without_input", d.without_input ? estimate_json(*d.without_input) : Json(nullptr)},
      {"without_exchange", d.without_exchange ? estimate_json(*d.without_exchange) : Json(nullptr)},
      {"evidence", evidence_json(d.evidence)}};
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
  add("--host-limit", o.host_limit);
  return words;
}

std::string command_line(const TrainRequest& request, const train::TrainSetting& setting) {
  const TrainRequest better = with_setting(request, setting);
  std::vector<std::string> words = training_words(better);
  for (const std::string& word : speed_options(better.recipe.speed, request.of_recipe))
    words.push_back(word);
  std::string line = "brim train";
  for (const std::string& word : words) line += " " + shell_word(word);
  return line;
}

/// "loss 0.95 after 40000 samples, accuracy 66.2 % (without 0.94, 66.5 %; untrained 2.30; 3 pairs)"
std::string check_text(const train::LearningCheck& check) {
  const auto metric = [&](const train::LearningCheck::Result& result) {
    return check.is_fraction ? percent(result.metric) : fmt::format("{:.4g}", result.metric);
  };
  return fmt::format(
      "loss {:.4g} after {} samples, {} {} (without {:.4g}, {}; untrained {:.4g}; {} pairs){}",
      check.after.loss, check.samples, check.metric, metric(check.after), check.before.loss,
      metric(check.before), check.untrained.loss, check.pairs,
      check.is_undecided ? ", too little is learned to tell" : "");
}

Json check_json(const train::LearningCheck& check) {
  const auto json = [](const train::LearningCheck::Result& result) {
    return Json{{"loss", finite(result.loss)}, {"metric", finite(result.metric)}};
  };
  return {{"metric", check.metric},
          {"untrained", json(check.untrained)},
          {"before", json(check.before)},
          {"after", json(check.after)},
          {"pairs", check.pairs},
          {"samples", check.samples},
          {"undecided", check.is_undecided},
          {"enough", check.is_enough}};
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
  for (const train::CauseCost& cost : d.causes) {
    say(stdout, "  {:<15} {:>6} ({} to {}), {:.0f} us a step: {}\n", diag::name(cost.cause),
        percent(cost.share.value), percent(std::max(cost.share.low, 0.0)),
        percent(std::min(cost.share.high, 1.0)), 1e6 * cost.seconds_per_step, meaning(cost.cause));
    for (const std::string& reason : cost.because) say(stdout, "                  {}\n", reason);
  }
  if (d.causes.empty())
    say(stdout, "  nothing else takes as much as {} of the time\n",
        percent(train::DoctorOptions().least_share));
  if (d.without_input)
    say(stdout, "if input cost nothing (each step gets the same batch, measured): {}\n",
        times(*d.without_input));
  if (d.without_exchange)
    say(stdout, "if exchanges cost nothing (each device trains by itself, measured): {}\n",
        times(*d.without_exchange));
}

std::string trial_line(const train::Trial& trial) {
  if (trial.verdict == train::Verdict::failed)
    return fmt::format("  {}: could not be tried: {}", trial.what,
                       with_option_names(trial.failure));
  std::string line =
      fmt::format("  {}: {}, {} pairs: ", trial.what, times(trial.speedup), trial.pairs);
  if (trial.check) line += check_text(*trial.check) + ": ";
  return line + (trial.verdict == train::Verdict::faster ? "kept" : name(trial.verdict));
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
      command_line(request, cure.setting));
}

std::string recipe_text(const TrainRequest& request, const train::Cure& cure) {
  std::string text = "# brim doctor: what was kept is\n";
  for (const std::string& change : cure.changes) text += fmt::format("#   {}\n", change);
  if (cure.changes.empty()) text += "#   nothing\n";
  return text + with_setting(request, cure.setting).recipe.toml();
}

void print_run(const std::string& folder, const RunDiagnosis& found) {
  say(stdout, "{}: {} stretches between reports, {:.1f} s of training\n", folder,
      found.diagnosis.runs, found.seconds);
  print_diagnosis(found.diagnosis, found.device);
  say(stdout, "`brim doctor RECIPE --fix`, with the options of the run, tries what helps\n");
}

void print_process(int64_t pid, const LiveDiagnosis& found) {
  say(stdout, "process {}, {}: watched for {:.1f} s{}\n", pid, found.recipe, found.seen.seconds,
      found.has_ended ? ", until it ended" : "");
  print_diagnosis(found.seen.diagnosis, found.seen.device);
  say(stdout, "`brim doctor {} --fix`, with the options of the training, tries what helps\n",
      found.recipe.empty() ? "RECIPE" : found.recipe);
}

void print_program(const std::vector<std::string>& words, const ProgramDiagnosis& found) {
  if (found.exit_code != 0)
    say(stderr, "brim: {} ended with exit code {}\n", words[0], found.exit_code);
  say(stdout, "{}: {} batches in {:.1f} s of its loop\n", words[0], found.batches, found.seconds);
  print_diagnosis(found.diagnosis, found.device);
}

Json program_json(const std::vector<std::string>& words, const ProgramDiagnosis& found) {
  Json waits = Json::array();
  for (const Wait& wait : found.waits)
    waits.push_back({{"cause", diag::name(wait.cause)},
                     {"op", wait.op},
                     {"count", wait.count},
                     {"seconds", finite(wait.seconds)},
                     {"stack", wait.stack}});
  return {{"schema", "brim.doctor/1"},
          {"program", words},
          {"exit_code", found.exit_code},
          {"device", found.device},
          {"seconds", found.seconds},
          {"batches", found.batches},
          {"before", diagnosis_json(found.diagnosis)},
          {"waits", waits}};
}

Json run_json(const std::string& folder, const RunDiagnosis& found) {
  return {{"schema", "brim.doctor/1"},
          {"run", folder},
          {"device", found.device},
          {"seconds", found.seconds},
          {"before", diagnosis_json(found.diagnosis)}};
}

Json process_json(int64_t pid, const LiveDiagnosis& found) {
  return {{"schema", "brim.doctor/1"},     {"process", pid},
          {"recipe", found.recipe},        {"device", found.seen.device},
          {"seconds", found.seen.seconds}, {"before", diagnosis_json(found.seen.diagnosis)}};
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
                      {"check", trial.check ? check_json(*trial.check) : Json(nullptr)},
                      {"failure", trial.failure.empty() ? Json(nullptr) : Json(trial.failure)}});
  json["trials"] = trials;
  json["kept"] = cure.changes;
  json["speedup"] = cure.speedup ? estimate_json(*cure.speedup) : Json(nullptr);
  json["after"] = diagnosis_json(cure.after);
  json["options"] = speed_options(train::speed_of(cure.setting.options), request.of_recipe);
  json["command"] = command_line(request, cure.setting);
  return json;
}

}  // namespace brim::command
