#include "command/training_options.h"

#include <brim/core/threads.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "command/data_option.h"
#include "command/format.h"
#include "command/memory_limit.h"
#include "plan/pass.h"

namespace brim::command {
namespace {

/// CPU threads of a rank that shares its host with others; 0: as usual. A launcher that has bound
/// it to some CPUs has shared them out already.
int threads_of(const dist::LaunchEnvironment& launched) {
  if (launched.local_size == 1) return 0;
  const bool binds = launched.launcher == "mpirun" || launched.launcher == "srun";
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const bool is_bound = binds && sched_getaffinity(0, sizeof(mask), &mask) == 0 &&
                        CPU_COUNT(&mask) < sysconf(_SC_NPROCESSORS_ONLN);
  return is_bound ? 0 : std::max(1, available_cpus() / launched.local_size);
}

}  // namespace

void add_training_options(Arguments args, TrainArguments& o, const char* recipe_help) {
  args.add("recipe", o.recipe, recipe_help);
  add_data_option(args, o.data);
  args.add("--device", o.device,
           "auto (the GPU with the most free memory, or the CPU; a resumed run stays "
           "where it was), cpu, cuda:N (or gpu:N), sim:N, a list of them, or cuda:all or "
           "sim:all")
      .show_default();
  args.add("--batch", o.batch, "samples per step").range(1, 1000000);
  args.add("--workers", o.workers, "loader threads, or auto (default: as the recipe says)");
  args.add("--augment-on", o.augment_on,
           "where pictures are cropped, mirrored and made floats: host, device (from "
           "bytes; the same numbers), or auto: the device if it is a GPU (default: as the "
           "recipe says)")
      .one_of({"auto", "host", "device"});
  args.flag("--data-on-device", o.data_on_device,
            "upload all pictures once and make every batch there; =false where the recipe does");
  args.add("--steps-per-graph", o.steps_per_graph,
           "steps queued as one launch, with --data-on-device; reports, checkpoints and "
           "stops come after whole launches (default: as the recipe says)")
      .range(1, 10000);
  args.add("--seed", o.seed, "of weights, order and augmentation")
      .range(int64_t{0}, int64_t{9'000'000'000'000'000'000});
  args.add("--teacher", o.teacher,
           "weights of another network, trained on the same data, whose outputs are imitated, too "
           "(the recipe's [distill] says how much)");
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
           "replay the step as an optimised plan: on or off (default: as the recipe says, or "
           "the resumed run did)")
      .one_of({"on", "off"});
  args.add("--passes", o.passes,
           "passes of the plan: all, -NAME,.. leaves some out, NAME,.. runs these alone, exact "
           "those that keep every bit");
  args.add("--memory-limit", o.memory_limit,
           "of the device, for example 2G, or auto: what is free; a step that takes more moves "
           "tensors to the host, or computes them again");
  args.add(
      "--host-limit", o.host_limit,
      "of the host's memory that is pinned for all devices of this process (default: no limit)");
}

train::TrainOptions train_options(const TrainRequest& request) {
  return train::with_speed({.devices = request.chosen.devices}, request.recipe.speed);
}

void set_limits(const TrainRequest& request) {
  const TrainArguments& o = request.arguments;
  const int threads = o.threads > 0 ? o.threads : threads_of(request.launched);
  if (threads > 0) set_num_threads(threads);
  on_chosen(request.chosen, [&] {
    for (const Device device : request.chosen.devices) {
      set_memory_limit(device, o.memory_limit);
      set_host_limit(device.kind, o.host_limit);
    }
  });
}

TrainRequest with_setting(TrainRequest request, const train::TrainSetting& setting) {
  const train::Recipe& before = request.recipe;
  TrainArguments& o = request.arguments;
  if (before.batch != setting.recipe.batch) o.batch = setting.recipe.batch;
  if (before.optimizer.lr != setting.recipe.optimizer.lr) o.lr = setting.recipe.optimizer.lr;
  if (before.precision != setting.recipe.precision) o.precision = setting.recipe.precision;
  request.recipe = setting.recipe;
  return request;
}

std::vector<std::string> speed_options(const train::SpeedRecipe& speed,
                                       const train::SpeedRecipe& without) {
  std::vector<std::string> words;
  const auto add = [&](bool differs, const char* name, const std::string& value) {
    if (!differs) return;
    words.emplace_back(name);
    if (!value.empty()) words.push_back(value);
  };
  add(speed.workers != without.workers, "--workers",
      speed.workers < 0 ? "auto" : std::to_string(speed.workers));
  add(speed.augment_on != without.augment_on, "--augment-on", speed.augment_on);
  add(speed.data_on_device != without.data_on_device,
      speed.data_on_device ? "--data-on-device" : "--data-on-device=false", "");
  add(speed.steps_per_graph != without.steps_per_graph, "--steps-per-graph",
      std::to_string(speed.steps_per_graph));
  add(speed.compile != without.compile, "--compile", speed.compile ? "on" : "off");
  add(speed.passes != without.passes, "--passes",
      speed.passes.empty() ? plan::kAllPasses : speed.passes);
  return words;
}

}  // namespace brim::command
