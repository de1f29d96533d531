// `brim doctor RECIPE|FILE.toml|RUN`: what keeps a training's device waiting; with --fix, what
// cures it.
#include <fmt/core.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command/command.h"
#include "command/doctor_report.h"
#include "command/report.h"
#include "command/run_diagnosis.h"
#include "command/signals.h"
#include "command/train_request.h"
#include "command/training_options.h"
#include "command/treatment.h"

namespace brim::command {
namespace {

struct DoctorArguments {
  TrainArguments train;
  bool fix = false;
  std::vector<std::string> allowed;
  double seconds = 0.25;
};

/// Of a run that was written down, or is being.
int examine_run(const DoctorArguments& arguments, const Arguments& args) {
  const TrainArguments& o = arguments.train;
  for (const char* option : {"--fix", "--allow", "--seconds", "--data", "--device", "--batch",
                             "--workers", "--augment-on", "--data-on-device", "--steps-per-graph",
                             "--seed", "--precision", "--virtual-ranks", "--sync-batch-norm",
                             "--threads", "--compile", "--passes", "--memory-limit"})
    if (!args.given(option).empty())
      throw UsageError(
          fmt::format("{} is a run, which can be examined and not changed ({}); give its recipe to "
                      "try changes",
                      o.recipe, option));
  const RunDiagnosis found = diagnose_run(o.recipe, train::DoctorOptions().least_share);
  if (!is_stdout(o.json)) print_run(o.recipe, found);
  if (!o.json.empty()) write_json(run_json(o.recipe, found), o.json);
  return 0;
}

int run_doctor(const DoctorArguments& arguments, const Arguments& args) {
  check_json_path(arguments.train.json);
  if (is_run(arguments.train.recipe)) return examine_run(arguments, args);
  if (!arguments.allowed.empty() && !arguments.fix)
    throw UsageError("--allow is of --fix, which is not there");
  const TrainRequest request = parse_request(arguments.train);
  const std::string& json = request.arguments.json;
  const std::atomic<int>& stop = watch_signals();
  const train::Cure cure = treat(request,
                                 {.fix = arguments.fix,
                                  .allow_rounding = !arguments.allowed.empty(),
                                  .seconds = arguments.seconds,
                                  .quiet = is_stdout(json)},
                                 stop);
  if (!json.empty()) write_json(doctor_json(request, cure, arguments.fix), json);
  return stop.load() != 0 ? 128 + stop.load() : 0;
}

const Register doctor_command(
    {"doctor", "find what keeps a training's device waiting, and try what cures it",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<DoctorArguments>();
       add_training_options(args, o->train,
                            "FILE.toml or a built-in recipe; or the folder of a run, which is "
                            "examined by its history");
       args.flag("--fix", o->fix,
                 "try what may make it faster and changes no bit of the weights, one change at a "
                 "time, and keep what does");
       args.add("--allow", o->allowed,
                "with --fix, try also what changes: rounding (sums in another order)")
           .one_each()
           .one_of({"rounding"});
       args.add("--seconds", o->seconds, "that each short training is measured")
           .range(0.01, 3600.0)
           .show_default();
       args.add("--json", o->train.json, "write the result to a file, or - for standard output");
       return [o, args] { return run_doctor(*o, args); };
     }});

}  // namespace
}  // namespace brim::command
