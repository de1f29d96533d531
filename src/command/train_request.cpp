#include "command/train_request.h"

#include <brim/train/weights.h>
#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "command/checkpoint_every.h"
#include "command/command.h"
#include "command/report.h"
#include "core/check.h"
#include "core/device_names.h"
#include "diag/gpu_sensor.h"
#include "plan/pass.h"
#include "train/recipe_model.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

/// The recipe with the options over it. A resumed run takes its recipe from the checkpoint.
train::Recipe chosen_recipe(const TrainArguments& o) {
  if (o.recipe.empty() && o.resume.empty())
    throw UsageError(fmt::format("which recipe? Give a FILE.toml or a built-in one: {}",
                                 fmt::join(train::recipe_names(), ", ")));
  train::Recipe r =
      o.recipe.empty() ? train::checkpoint_recipe(o.resume) : train::load_recipe(o.recipe);
  if (!o.weights.empty())
    r = train::with_channels_of(std::move(r),
                                train::read_weights_info(train::WeightsFile(o.weights)).recipe);
  if (!o.data.empty()) r.data = o.data;
  if (o.epochs) r.epochs = *o.epochs;
  if (o.batch) r.batch = *o.batch;
  if (o.virtual_ranks) r.virtual_ranks = *o.virtual_ranks;
  if (o.sync_batch_norm) r.sync_batch_norm = true;
  if (o.lr) r.optimizer.lr = *o.lr;
  if (o.seed) r.seed = *o.seed;
  if (!o.teacher.empty()) r.distill.teacher = o.teacher;
  if (!o.precision.empty()) r.precision = o.precision;
  train::check_recipe(r);
  return r;
}

int workers_of(const std::string& text) {
  if (text == "auto") return -1;
  int workers = -1;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, workers);
  if (error != std::errc() || at != end || workers < 0 || workers > 1024)
    throw UsageError(
        fmt::format("--workers '{}' is neither a number from 0 to 1024 nor auto", text));
  return workers;
}

/// The options over the recipe's. A resumed run compiles as before, but for what is named.
void choose_speed(const TrainArguments& o, const std::optional<train::RunState>& before,
                  train::SpeedRecipe& speed) {
  if (!o.workers.empty()) speed.workers = workers_of(o.workers);
  if (!o.augment_on.empty()) speed.augment_on = o.augment_on;
  if (o.data_on_device) speed.data_on_device = *o.data_on_device;
  if (o.steps_per_graph) speed.steps_per_graph = *o.steps_per_graph;
  if (before && before->mode)
    speed.compile = before->mode->compile, speed.passes = before->mode->passes;
  if (!o.compile.empty()) speed.compile = o.compile == "on";
  if (!o.passes.empty()) speed.passes = o.passes;
  plan::check_passes(speed.passes);
  if (speed.passes == plan::kAllPasses) speed.passes.clear();
}

/// Throws UsageError if --json or --trace would replace what the run reads or writes, or if
/// --tensorboard takes a name of that.
void check_outputs_of_run(const TrainArguments& o, const std::string& data) {
  std::vector<NamedPath> outputs = {{"--json", o.json}, {"--trace", o.trace}};
  check_outputs(outputs, {{"the recipe", o.recipe}, {"the data", data}});
  outputs.push_back({"--tensorboard", o.tensorboard});
  for (const std::string& folder : {o.out, o.resume}) check_beside_run(outputs, folder);
}

/// Throws UsageError or DeviceError where nothing would tell of heat.
void check_heat(const TrainArguments& o, const std::vector<Device>& devices) {
  if (o.monitor <= 0)
    throw UsageError("--max-temperature needs readings of the sensors; leave --monitor 0 out");
  std::string why;
  for (const Device device : devices) {
    diag::GpuSensor* const sensor = diag::gpu_sensor(device.kind);
    const diag::GpuReading reading = sensor ? sensor->read(device.index) : diag::GpuReading();
    if (reading.temperature) return;
    if (!reading.error.empty()) why = " (" + reading.error + ")";
  }
  raise<DeviceError>("[train] no temperature is known of {}{}; leave --max-temperature out",
                     names_of(devices), why);
}

}  // namespace

TrainRequest parse_request(const TrainArguments& o) {
  TrainRequest request;
  request.launched = dist::launch_environment();
  request.arguments = o;
  request.traces = !o.trace.empty();
  if (request.launched.rank > 0) {  // what is written is rank 0's
    TrainArguments& own = request.arguments;
    own.json.clear(), own.trace.clear(), own.tensorboard.clear();
    own.metrics.clear();
    if (!o.max_temperature) own.monitor = 0;  // each process guards its own devices
  }
  request.checkpoint.keep = o.keep;
  request.checkpoint.sharded = o.shard_checkpoints;
  parse_checkpoint_every(o.checkpoint_every, request.checkpoint);
  request.recipe = chosen_recipe(o);
  std::optional<train::RunState> before;
  if (!o.resume.empty()) before = train::newest_state(o.resume);
  request.of_recipe = request.recipe.speed;
  choose_speed(o, before, request.recipe.speed);
  request.chosen = request.launched.size > 1
                       ? choose_for_rank(o.device, request.launched)
                       : choose_devices(o.device, before ? before->devices : "");
  check_json_path(request.arguments.json);
  check_output_path("trace", request.arguments.trace);
  check_outputs_of_run(request.arguments, request.recipe.data);
  check_watch_options(o);
  if (o.doctor && !o.resume.empty())
    throw UsageError(
        "--doctor begins a run; one that goes on does so with the options that it found");
  if (o.doctor && o.max_temperature)
    throw UsageError("--doctor trains without regard to --max-temperature; leave one of them out");
  if (o.max_temperature) check_heat(o, request.chosen.devices);
  return request;
}

}  // namespace brim::command
