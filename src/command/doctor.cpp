// `brim doctor RECIPE|FILE.toml|RUN|PROCESS` or `brim doctor -- PROGRAM ARGUMENT...`: what keeps a
// training's device waiting; with --fix, what cures it.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command/command.h"
#include "command/doctor_report.h"
#include "command/live_diagnosis.h"
#include "command/program_diagnosis.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/run_diagnosis.h"
#include "command/say.h"
#include "command/signals.h"
#include "command/train_request.h"
#include "command/training_options.h"
#include "command/treatment.h"
#include "io/atomic_file.h"

namespace brim::command {
namespace {

struct DoctorArguments {
  TrainArguments train;
  bool fix = false;
  std::vector<std::string> allowed;
  double seconds = 0.25;
  std::string write;
};

/// What is only watched has no options of a training. `what`: "run is a run"; `recipe`: which one
/// to give instead.
void check_only_watched(const std::string& what, const char* recipe, const Arguments& args) {
  for (const char* option :
       {"--fix",        "--allow",          "--write",           "--seconds",
        "--data",       "--device",         "--batch",           "--workers",
        "--augment-on", "--data-on-device", "--steps-per-graph", "--seed",
        "--precision",  "--virtual-ranks",  "--sync-batch-norm", "--threads",
        "--compile",    "--passes",         "--memory-limit",    "--host-limit"})
    if (!args.given(option).empty())
      throw UsageError(
          fmt::format("{}, which can be examined and not changed ({}); give {} to try changes",
                      what, option, recipe));
}

/// Of a run that was written down, or is being.
int examine_run(const DoctorArguments& arguments, const Arguments& args) {
  const TrainArguments& o = arguments.train;
  check_only_watched(o.recipe + " is a run", "its recipe", args);
  const RunDiagnosis found = diagnose_run(o.recipe, train::DoctorOptions().least_share);
  if (!is_stdout(o.json)) print_run(o.recipe, found);
  if (!o.json.empty()) write_json(run_json(o.recipe, found), o.json);
  return 0;
}

/// Of a training that somebody else has started.
int examine_process(int64_t pid, const DoctorArguments& arguments, const Arguments& args) {
  const TrainArguments& o = arguments.train;
  check_only_watched(fmt::format("{} is a process", pid), "its recipe", args);
  ProgressDisplay display(is_stdout(o.json));
  const std::atomic<int>& stop = watch_signals();
  const std::optional<LiveDiagnosis> found =
      diagnose_process(pid, train::DoctorOptions().least_share, stop,
                       [&](double fraction) { display.show("watch", fraction); });
  display.finish();
  if (!found) {
    say(stderr, "brim: stopped before enough of process {} was seen\n", pid);
    return 128 + stop.load();
  }
  if (!is_stdout(o.json)) print_process(pid, *found);
  if (!o.json.empty()) write_json(process_json(pid, *found), o.json);
  return 0;
}

/// Of a program with a loop of its own.
int examine_program(const DoctorArguments& arguments, const Arguments& args) {
  const TrainArguments& o = arguments.train;
  const std::vector<std::string>& words = wrapped_words();
  check_only_watched(words[0] + " is a program", "a recipe", args);
  if (!o.recipe.empty())
    throw UsageError(fmt::format("{} and the program {}: examine one of them", o.recipe, words[0]));
  const ProgramDiagnosis found =
      diagnose_program(words, train::DoctorOptions().least_share, is_stdout(o.json));
  if (!is_stdout(o.json)) print_program(words, found);
  if (!o.json.empty()) write_json(program_json(words, found), o.json);
  return found.exit_code;
}

/// Throws UsageError or FileError for a recipe that could not be written, or be read again.
void check_written(const DoctorArguments& arguments) {
  if (arguments.write.empty()) return;
  if (!arguments.fix) throw UsageError("--write is of --fix, which is not there");
  if (!arguments.write.ends_with(".toml"))
    throw UsageError(fmt::format("--write {}: a recipe's file ends in .toml; give it such a name",
                                 arguments.write));
  check_output_path("write", arguments.write);
  check_outputs({{"--write", arguments.write}, {"--json", arguments.train.json}},
                {{"the recipe", arguments.train.recipe}});
}

int run_doctor(const DoctorArguments& arguments, const Arguments& args) {
  check_json_path(arguments.train.json);
  if (!wrapped_words().empty()) return examine_program(arguments, args);
  if (is_run(arguments.train.recipe)) return examine_run(arguments, args);
  if (const auto pid = process_of(arguments.train.recipe))
    return examine_process(*pid, arguments, args);
  if (!arguments.allowed.empty() && !arguments.fix)
    throw UsageError("--allow is of --fix, which is not there");
  check_written(arguments);
  const TrainRequest request = parse_request(arguments.train);
  const std::string& json = request.arguments.json;
  const std::atomic<int>& stop = watch_signals();
  const auto allows = [&](const char* what) {
    return std::ranges::find(arguments.allowed, what) != arguments.allowed.end();
  };
  const train::Cure cure = treat(request,
                                 {.fix = arguments.fix,
                                  .allow_rounding = allows("rounding"),
                                  .allow_precision = allows("precision"),
                                  .allow_batch = allows("batch"),
                                  .seconds = arguments.seconds,
                                  .quiet = is_stdout(json)},
                                 stop);
  if (!json.empty()) write_json(doctor_json(request, cure, arguments.fix), json);
  if (!arguments.write.empty() && stop.load() == 0) {
    io::write_file_atomically(arguments.write, recipe_text(request, cure));
    if (!is_stdout(json)) say(stdout, "{} has the recipe with what was kept\n", arguments.write);
  }
  return stop.load() != 0 ? 128 + stop.load() : 0;
}

const Register doctor_command(
    {"doctor", "find what keeps a training's device waiting, and try what cures it",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<DoctorArguments>();
       add_training_options(args, o->train,
                            "FILE.toml or a built-in recipe; or the folder of a run, which is "
                            "examined by its history; or the process number of a training that "
                            "runs, which is watched; or, behind --, a program with a training "
                            "loop of its own, which is run and watched");
       args.flag("--fix", o->fix,
                 "try what may make it faster and changes no bit of the weights, one change at a "
                 "time, and keep what does");
       args.add("--allow", o->allowed,
                "with --fix, try also what changes rounding (sums in another order, tf32), "
                "precision (bf16) or batch (larger ones, the learning rate with them); the last "
                "two are kept where as much is learned")
           .one_each()
           .one_of({"rounding", "precision", "batch"});
       args.add("--seconds", o->seconds, "that each short training is measured")
           .range(0.01, 3600.0)
           .show_default();
       args.add(
           "--write", o->write,
           "with --fix: FILE.toml for the recipe with what was kept, which `brim train` takes");
       args.add("--json", o->train.json, "write the result to a file, or - for standard output");
       return [o, args] { return run_doctor(*o, args); };
     },
     Wraps::a_command_behind_dashes});

}  // namespace
}  // namespace brim::command
