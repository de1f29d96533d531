// `brim train RECIPE|FILE.toml`: trains, shows progress, then prints accuracy and the account.
#include <brim/core/allocator.h>
#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command/command.h"
#include "command/format.h"
#include "command/report.h"
#include "command/signals.h"
#include "command/start.h"
#include "command/train_request.h"
#include "command/train_session.h"
#include "command/training_options.h"
#include "command/treatment.h"

namespace brim::command {
namespace {

std::string words(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& word : all) text += " " + shell_word(word);
  return text;
}

/// Options whose values are not in a checkpoint, or not in the one that was resumed, as they were
/// given; speed_options() come behind them.
std::string repeated_options(const Arguments& args) {
  const std::vector<std::string> names = {
      "--data",          "--device",        "--epochs",           "--threads",
      "--precision",     "--virtual-ranks", "--checkpoint-every", "--keep",
      "--memory-limit",  "--host-limit",    "--monitor",          "--metrics",
      "--metrics-token", "--tensorboard",   "--max-temperature"};
  const std::vector<std::string> flags = {"--sync-batch-norm", "--shard-checkpoints"};
  std::vector<std::string> repeated;
  for (const std::string& name : names)
    if (const std::vector<std::string> given = args.given(name.c_str()); !given.empty()) {
      repeated.push_back(name);
      repeated.push_back(given.back());
    }
  for (const std::string& flag : flags)
    if (!args.given(flag.c_str()).empty()) repeated.push_back(flag);
  return words(repeated);
}

/// What the doctor makes of it.
TrainRequest treated(const TrainRequest& request) {
  const Treatment how{.fix = true, .quiet = is_stdout(request.arguments.json)};
  auto cure = std::make_shared<const train::Cure>(treat(request, how, watch_signals()));
  for (const Device device : request.chosen.devices) Allocator::of(device).reset_peak();
  mark_start();  // of the training, which the doctor is no part of
  TrainRequest better = with_setting(request, cure->setting);
  better.cure = std::move(cure);
  return better;
}

const Register train_command(
    {"train", "train a network from a recipe", [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<TrainArguments>();
       add_training_options(args, *o,
                            "FILE.toml or a built-in recipe; `brim train` alone lists them");
       args.flag("--doctor", o->doctor,
                 "first find what makes the training faster and changes no bit, as `brim doctor "
                 "--fix` does, and train so");
       args.add("--epochs", o->epochs, "passes over the data").range(1, 1000000);
       args.add("--lr", o->lr, "learning rate").range(0.0, 1e9);
       args.add("--steps", o->steps,
                "stop after so many steps of this run, those before a resume left out")
           .range(int64_t{1}, int64_t{1} << 60);
       args.add("--weights", o->weights,
                "begin with those of a .safetensors, .pth or .pt file (fine-tuning)");
       args.add("--out", o->out, "folder for model.safetensors and checkpoints");
       args.add("--resume", o->resume, "folder of a run to go on with");
       args.add("--checkpoint-every", o->checkpoint_every,
                "steps (100), seconds (60s), or epoch: only at its end")
           .show_default();
       args.add("--keep", o->keep, "newest checkpoints that stay, beside the best one")
           .range(1, 1000000)
           .show_default();
       args.flag("--shard-checkpoints", o->shard_checkpoints,
                 "each rank writes its part of them, into a folder that all hosts see");
       args.flag("--explain", o->explain,
                 "print every plan of the step that is in use, at the end");
       args.add("--trace", o->trace, "write a timeline that Perfetto opens");
       add_watch_options(args, *o);
       args.add("--max-temperature", o->max_temperature,
                "degrees Celsius from which on steps wait until all devices are 3 degrees cooler; "
                "needs --monitor")
           .range(1.0, 200.0);
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o, args] {
         o->repeated = repeated_options(args);
         TrainRequest request = parse_request(*o);
         if (o->doctor) request = treated(request);
         if (const int signal = watch_signals().load(); signal != 0 && o->doctor)
           return 128 + signal;
         request.arguments.repeated += words(speed_options(request.recipe.speed));
         return run_training(request);
       };
     }});

}  // namespace
}  // namespace brim::command
