#include "command/training_options.h"

namespace brim::command {
namespace {

train::AugmentOn augment_on_of(const std::string& word) {
  if (word == "host") return train::AugmentOn::host;
  return word == "device" ? train::AugmentOn::device : train::AugmentOn::automatic;
}

}  // namespace

void add_training_options(Arguments args, TrainArguments& o) {
  args.add("recipe", o.recipe, "FILE.toml or a built-in recipe; `brim train` alone lists them");
  args.add("--data", o.data,
           "instead of the recipe's: shapes10, CIFAR-10, MNIST or image folder, tar, CSV, text");
  args.add("--device", o.device,
           "auto (the GPU with the most free memory, or the CPU; a resumed run stays "
           "where it was), cpu, cuda:N (or gpu:N), sim:N, a list of them, or cuda:all or "
           "sim:all")
      .show_default();
  args.add("--batch", o.batch, "samples per step").range(1, 1000000);
  args.add("--workers", o.workers, "loader threads, or auto").show_default();
  args.add("--augment-on", o.augment_on,
           "where pictures are cropped, mirrored and made floats: host, device (from "
           "bytes; the same numbers), or auto: the device if it is a GPU")
      .one_of({"auto", "host", "device"})
      .show_default();
  args.flag("--data-on-device", o.data_on_device,
            "upload all pictures once and make every batch there");
  args.add("--steps-per-graph", o.steps_per_graph,
           "steps queued as one launch, with --data-on-device; reports, checkpoints and "
           "stops come after whole launches")
      .range(1, 10000)
      .show_default();
  args.add("--seed", o.seed, "of weights, order and augmentation")
      .range(int64_t{0}, int64_t{9'000'000'000'000'000'000});
  args.add("--precision", o.precision,
           "of matrix products: fp32, tf32 (as fp32, but for matrix units of cuda), "
           "fp16 (with a loss scale) or bf16; weights stay fp32")
      .one_of({"fp32", "tf32", "fp16", "bf16"});
  args.add("--virtual-ranks", o.virtual_ranks,
           "equal parts of a batch, which decide the bits of the weights whatever number of "
           "ranks computes them (default: one for each rank, or as the resumed run had)")
      .range(int64_t{1}, int64_t{65536});
  args.flag("--sync-batch-norm", o.sync_batch_norm,
            "batch norm with the statistics of all ranks' samples");
  args.add("--threads", o.threads, "CPU threads per op").range(1, 4096);
  args.add("--compile", o.compile,
           "replay the step as an optimised plan: on or off (default: on, or as the resumed "
           "run did)")
      .one_of({"on", "off"});
  args.add("--passes", o.passes,
           "passes of the plan: -NAME,.. leaves some out, NAME,.. runs these alone, exact "
           "those that keep every bit");
  args.add("--memory-limit", o.memory_limit, "of the device, for example 2G");
}

train::TrainOptions train_options(const TrainRequest& request) {
  const TrainArguments& o = request.arguments;
  return {.devices = request.chosen.devices,
          .workers = request.workers,
          .augment_on = augment_on_of(o.augment_on),
          .data_on_device = o.data_on_device,
          .steps_per_graph = o.steps_per_graph,
          .compile = request.mode.compile,
          .passes = request.mode.passes};
}

std::vector<std::string> speed_options(const train::TrainOptions& options) {
  std::vector<std::string> words;
  const auto add = [&](const char* name, const std::string& value) {
    words.emplace_back(name);
    if (!value.empty()) words.push_back(value);
  };
  if (options.workers >= 0) add("--workers", std::to_string(options.workers));
  if (options.augment_on != train::AugmentOn::automatic)
    add("--augment-on", options.augment_on == train::AugmentOn::host ? "host" : "device");
  if (options.data_on_device) add("--data-on-device", "");
  if (options.steps_per_graph > 1)
    add("--steps-per-graph", std::to_string(options.steps_per_graph));
  if (!options.compile) add("--compile", "off");
  if (!options.passes.empty()) add("--passes", options.passes);
  return words;
}

}  // namespace brim::command
