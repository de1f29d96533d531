// `brim train RECIPE|FILE.toml`: trains, shows progress, then prints accuracy and the account.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "command/command.h"
#include "command/format.h"
#include "command/train_request.h"
#include "command/train_session.h"

namespace brim::command {
namespace {

/// Options whose values are not in a checkpoint, or not in the one that was resumed, as they were
/// given.
std::string repeated_options(const Arguments& args) {
  std::string text;
  for (const char* name :
       {"--data", "--device", "--epochs", "--workers", "--threads", "--precision",
        "--virtual-ranks", "--compile", "--passes", "--checkpoint-every", "--keep",
        "--memory-limit", "--augment-on", "--steps-per-graph", "--monitor", "--metrics",
        "--metrics-token", "--tensorboard", "--max-temperature"})
    if (const std::vector<std::string> given = args.given(name); !given.empty())
      text += fmt::format(" {} {}", name, shell_word(given.back()));
  for (const char* flag : {"--data-on-device", "--sync-batch-norm", "--shard-checkpoints"})
    if (!args.given(flag).empty()) text += fmt::format(" {}", flag);
  return text;
}

const Register train_command(
    {"train", "train a network from a recipe", [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<TrainArguments>();
       args.add("recipe", o->recipe,
                "FILE.toml or a built-in recipe; `brim train` alone lists them");
       args.add(
           "--data", o->data,
           "instead of the recipe's: shapes10, CIFAR-10, MNIST or image folder, tar, CSV, text");
       args.add("--device", o->device,
                "auto (the GPU with the most free memory, or the CPU; a resumed run stays "
                "where it was), cpu, cuda:N (or gpu:N), sim:N, a list of them, or cuda:all or "
                "sim:all")
           .show_default();
       args.add("--epochs", o->epochs, "passes over the data").range(1, 1000000);
       args.add("--batch", o->batch, "samples per step").range(1, 1000000);
       args.add("--workers", o->workers, "loader threads, or auto").show_default();
       args.add("--augment-on", o->augment_on,
                "where pictures are cropped, mirrored and made floats: host, device (from "
                "bytes; the same numbers), or auto: the device if it is a GPU")
           .one_of({"auto", "host", "device"})
           .show_default();
       args.flag("--data-on-device", o->data_on_device,
                 "upload all pictures once and make every batch there");
       args.add("--steps-per-graph", o->steps_per_graph,
                "steps queued as one launch, with --data-on-device; reports, checkpoints and "
                "stops come after whole launches")
           .range(1, 10000)
           .show_default();
       args.add("--lr", o->lr, "learning rate").range(0.0, 1e9);
       args.add("--seed", o->seed, "of weights, order and augmentation")
           .range(int64_t{0}, int64_t{9'000'000'000'000'000'000});
       args.add("--precision", o->precision,
                "of matrix products: fp32, tf32 (as fp32, but for matrix units of cuda), "
                "fp16 (with a loss scale) or bf16; weights stay fp32")
           .one_of({"fp32", "tf32", "fp16", "bf16"});
       args.add("--virtual-ranks", o->virtual_ranks,
                "equal parts of a batch, which decide the bits of the weights whatever number of "
                "ranks computes them (default: one for each rank, or as the resumed run had)")
           .range(int64_t{1}, int64_t{65536});
       args.flag("--sync-batch-norm", o->sync_batch_norm,
                 "batch norm with the statistics of all ranks' samples");
       args.add("--threads", o->threads, "CPU threads per op").range(1, 4096);
       args.add("--steps", o->steps,
                "stop after so many steps of this run, those before a resume left out")
           .range(int64_t{1}, int64_t{1} << 60);
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
       args.add("--compile", o->compile,
                "replay the step as an optimised plan: on or off (default: on, or as the resumed "
                "run did)")
           .one_of({"on", "off"});
       args.add("--passes", o->passes,
                "passes of the plan: -NAME,.. leaves some out, NAME,.. runs these alone, exact "
                "those that keep every bit");
       args.flag("--explain", o->explain, "print the plan of the step at the end");
       args.add("--memory-limit", o->memory_limit, "of the device, for example 2G");
       args.add("--trace", o->trace, "write a timeline that Perfetto opens");
       args.add("--monitor", o->monitor,
                "seconds between readings of sensors (GPU, CPU load), kept in the --out "
                "folder; 0: none")
           .range(0.0, 3600.0)
           .show_default();
       args.add("--max-temperature", o->max_temperature,
                "degrees Celsius from which on steps wait until all devices are 3 degrees cooler; "
                "needs --monitor")
           .range(1.0, 200.0);
       args.add("--metrics", o->metrics,
                "[HOST:]PORT where Prometheus finds the run's metrics, at /metrics");
       args.add("--metrics-token", o->metrics_token,
                "file with the token that clients of --metrics must show; needed for hosts other "
                "than this one");
       args.add("--tensorboard", o->tensorboard,
                "folder for TensorBoard: loss, metrics, weights, gradients, sensors, the account");
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o, args] {
         o->repeated = repeated_options(args);
         return run_training(parse_request(*o));
       };
     }});

}  // namespace
}  // namespace brim::command
