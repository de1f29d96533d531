// `brim doctor RECIPE|FILE.toml`: what keeps a training's device waiting; with --fix, what cures
// it.
#include <brim/core/allocator.h>
#include <brim/core/threads.h>
#include <brim/train/doctor.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command/command.h"
#include "command/doctor_report.h"
#include "command/format.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/say.h"
#include "command/signals.h"
#include "command/train_request.h"
#include "command/training_options.h"

namespace brim::command {
namespace {

struct DoctorArguments {
  TrainArguments train;
  bool fix = false;
  double seconds = 0.25;
};

int run_doctor(const DoctorArguments& arguments) {
  const TrainRequest request = parse_request(arguments.train);
  const TrainArguments& o = request.arguments;
  if (request.launched.is_distributed())
    throw UsageError("doctor examines one process; name several devices with --device instead");
  const bool quiet = is_stdout(o.json);
  const std::atomic<int>& stop = watch_signals();
  if (o.threads > 0) set_num_threads(o.threads);
  if (!o.memory_limit.empty())
    for (const Device device : request.chosen.devices)
      Allocator::of(device).set_limit(parse_bytes(o.memory_limit, "--memory-limit"));
  ProgressDisplay display(quiet);
  const train::DoctorOptions how{
      .seconds = arguments.seconds,
      .progress = [&](const std::string& what, double fraction) { display.show(what, fraction); },
      .tried =
          [&](const train::Trial& trial) {
            display.finish();
            if (!quiet) say(stdout, "{}\n", trial_line(trial));
            std::fflush(stdout);
          },
      .stop = &stop};
  if (!quiet) say(stdout, "{}\n", examined_line(request));
  return on_chosen(request.chosen, [&] {
    train::Doctor doctor(request.recipe, train_options(request), how);
    train::Cure cure;
    if (arguments.fix) {
      cure = doctor.cure();
    } else {
      cure.options = train_options(request);
      cure.before = cure.after = doctor.diagnose();
    }
    display.finish();
    if (!quiet) print_cure(request, cure, arguments.fix);
    if (!o.json.empty()) write_json(doctor_json(request, cure, arguments.fix), o.json);
    return stop.load() != 0 ? 128 + stop.load() : 0;
  });
}

const Register doctor_command(
    {"doctor", "find what keeps a training's device waiting, and try what cures it",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<DoctorArguments>();
       add_training_options(args, o->train);
       args.flag("--fix", o->fix,
                 "try what may make it faster and changes no bit of the weights, one change at a "
                 "time, and keep what does");
       args.add("--seconds", o->seconds, "that each short training is measured")
           .range(0.01, 3600.0)
           .show_default();
       args.add("--json", o->train.json, "write the result to a file, or - for standard output");
       return [o] { return run_doctor(*o); };
     }});

}  // namespace
}  // namespace brim::command
