// Making a Trainer, and what surrounds its loop.
#include <brim/train/trainer.h>

#include <brim/core/random.h>
#include <brim/core/tf32.h>
#include <brim/diag/sampling.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"
#include "core/runtime.h"
#include "diag/span.h"
#include "io/atomic_file.h"
#include "io/safetensors_writer.h"
#include "train/build.h"
#include "train/metric/registry.h"
#include "train/task/open.h"
#include "train/trainer_state.h"
#include "train/training_loop.h"
#include "train/weights_metadata.h"

namespace brim::train {

namespace {

constexpr int64_t kMaxStepsPerGraph = 10000;
constexpr int64_t kTestBatch = 100;  // pictures at least, where nothing is learned

}  // namespace

Trainer::State::State(const Recipe& r, TrainOptions o)
    : recipe(r), options(std::move(o)), task(make_task(r)) {
  virtual_ranks = choose_virtual_ranks();
  if (world_size() > 1)
    check_ranks_agree(fmt::format(
        "{}compile = {}\npasses = {}\nmax_steps = {}\nsteps_per_graph = {}\n", recipe.toml(),
        options.compile, options.passes, options.max_steps, options.steps_per_graph));
  const std::vector<std::string> metrics = metrics_of(*task, r);
  decisive_metric = !r.validation.by.empty() ? r.validation.by : metrics.empty() ? "" : metrics[0];
  BRIM_CHECK(
      decisive_metric.empty() ||
          std::find(metrics.begin(), metrics.end(), decisive_metric) != metrics.end(),
      ValueError,
      "[train] validation.by is '{}', which is none of the metrics of task {} ({}); add it to "
      "Recipe::metrics",
      decisive_metric, r.task, fmt::join(metrics, ", "));
  // All now, so that a damaged test split is not found out after hours of training.
  TaskData data = open(data::Split::train, true);
  if (r.validation.fraction > 0) {
    // Pictures are the same whether they train or not: their transform is the loader's.
    TaskData same = data.pictures ? data : open(data::Split::train, false, &data);
    ValidationParts parts = split_off(data, same, *task, r);
    data = std::move(parts.train);
    validation = split_of(std::move(parts.validation), false);
  }
  train = split_of(std::move(data), true);
  input = input_shape(train->data, r);
  for (const std::string& name : metrics)  // now, too
    (void)metric_kind(name).make({.outputs = train->data.outputs, .device = options.devices[0]});
  try {
    test = split_of(open(data::Split::test, false, &train->data), false);
  } catch (const data::NoSuchSplit&) {
  }
  BRIM_CHECK(!test || (test->data.outputs == train->data.outputs &&
                       same_classes(test->data.names, train->data.names)),
             ValueError,
             "[train] {}: its test split has {} classes and its training split {}, or others; give "
             "both the same",
             r.data, test->data.outputs, train->data.outputs);
}

TaskData Trainer::State::open(data::Split split, bool training, const TaskData* like) const {
  return open_data(*task, recipe, {split, training, open_progress(), like});
}

Trainer::State::Split Trainer::State::split_of(TaskData data, bool training) const {
  Recipe how = recipe;
  if (!training && data.pictures) how.batch = std::max<int64_t>(recipe.batch, kTestBatch);
  data::Loader loader = loader_of(how, data, training, options.workers, place());
  return {std::move(data), std::move(loader), {}};
}

WeightsInfo Trainer::State::weights_info() const {
  return {recipe, train->data.names, train->data.columns, train->data.targets, input};
}

LoaderPlace Trainer::State::place() const {
  AugmentOn augment_on = options.augment_on;
  if (options.data_on_device) augment_on = AugmentOn::device;
  // Replicas take their parts from the host.
  if (options.devices.size() > 1) augment_on = AugmentOn::host;
  return {options.devices[0], augment_on, rank(), world_size(), virtual_ranks};
}

data::DeviceLoader Trainer::State::make_feed(const data::Loader& from,
                                             const std::vector<Device>& to) const {
  return {from,
          to,
          {.augment_on = place().augment_on,
           .resident = options.data_on_device,
           .progress = open_progress("upload")}};
}

data::OpenProgress Trainer::State::open_progress(const char* stage) const {
  return [this, stage](double fraction) {
    if (options.stage) options.stage(stage, fraction);
    return !stop_asked();
  };
}

Trainer::Trainer(const Recipe& recipe, TrainOptions options) {
  const dist::GroupPtr group = options.group;
  try {
    make(recipe, std::move(options));
  } catch (const std::exception& e) {
    if (group) group->abort(e.what());
    throw;
  }
}

void Trainer::make(const Recipe& recipe, TrainOptions options) {
  check_recipe(recipe);
  BRIM_CHECK(!options.devices.empty(), ValueError, "[train] no device; name one or more");
  for (const Device device : options.devices) {
    check_available(device);
    if (recipe.precision != "tf32") continue;
    const std::string missing = Tf32::missing(device);
    BRIM_CHECK(missing.empty(), DeviceError,
               "[train] precision tf32 on {} needs NVIDIA's libraries, but {}; or use "
               "Recipe::precision=fp32",
               device.str(), missing);
  }
  BRIM_CHECK(
      options.devices.size() == 1 || options.augment_on != AugmentOn::device, ValueError,
      "[train] pictures are augmented on one device, not on {}; leave TrainOptions::augment_on out",
      options.devices.size());
  BRIM_CHECK(
      options.devices.size() == 1 || !options.data_on_device, ValueError,
      "[train] the data can lie on one device, not on {}; leave TrainOptions::data_on_device out",
      options.devices.size());
  BRIM_CHECK(options.augment_on != AugmentOn::host || !options.data_on_device, ValueError,
             "[train] data on the device is augmented there; leave TrainOptions::augment_on out");
  BRIM_CHECK(options.steps_per_graph >= 1 && options.steps_per_graph <= kMaxStepsPerGraph,
             ValueError, "[train] TrainOptions::steps_per_graph is {}; it must be 1 to {}",
             options.steps_per_graph, kMaxStepsPerGraph);
  BRIM_CHECK(options.steps_per_graph == 1 || options.data_on_device, ValueError,
             "[train] TrainOptions::steps_per_graph={} needs batches that no host brings: add "
             "TrainOptions::data_on_device",
             options.steps_per_graph);
  BRIM_CHECK(options.steps_per_graph == 1 || options.compile, ValueError,
             "[train] TrainOptions::steps_per_graph={} works with compiled steps; leave "
             "TrainOptions::compile=off out",
             options.steps_per_graph);
  BRIM_CHECK(
      options.devices.size() == 1 || (!options.group && recipe.virtual_ranks <= 1), ValueError,
      "[train] ranks and virtual ranks have one device each, not {}; start a process for each "
      "device",
      options.devices.size());
  BRIM_CHECK(
      !options.group || options.group->size() == 1 || recipe.input.on_corrupt != "skip", ValueError,
      "[train] input.on_corrupt = \"skip\" makes batches smaller, and ranks share them equally; "
      "use \"raise\"");
  state_ = std::make_unique<State>(recipe, std::move(options));
  State& s = *state_;
  manual_seed(recipe.seed);
  const auto make = [&s](Device device) { return make_network(s.recipe, s.train->data, device); };
  s.model = make(s.options.devices[0]);
  s.parameters = s.model->parameters();
  s.optimizer = make_optimizer(recipe.optimizer, *s.model);
  s.schedule = make_schedule(recipe, *s.optimizer, s.train->loader.batches());
  if (autocast_dtype(recipe) == DType::f16) s.scaler.emplace(s.options.devices[0]);
  const RandomKey drawn = Generator::global().state();
  s.replicas.emplace(*s.model, s.options.devices, make);
  Generator::global().set_state(drawn);  // the copies' own initial weights are never used
  s.prepare_ranks();
  if (s.options.group || s.virtual_ranks > 1)
    s.parallel.emplace(*s.model, s.options.group ? s.options.group : dist::local_groups(1)[0],
                       s.virtual_ranks);
  s.train->feed = s.make_feed(s.train->loader, s.options.devices);
  for (std::optional<State::Split>* split : {&s.validation, &s.test})
    if (*split) (*split)->feed = s.make_feed((*split)->loader, {s.options.devices[0]});
}

Trainer::~Trainer() = default;
nn::Module& Trainer::model() { return *state_->model; }
const data::Loader& Trainer::loader() const { return state_->train->feed->loader(); }
const TaskData& Trainer::data() const { return state_->train->data; }
const std::string& Trainer::resumed_from() const { return state_->resumed_from; }
std::string Trainer::input() const { return state_->train->feed->describe(); }
int64_t Trainer::steps_before() const { return state_->steps_before; }
int64_t Trainer::virtual_ranks() const { return state_->virtual_ranks; }

TrainResult Trainer::train() {
  State& s = *state_;
  TrainResult result;
  std::unique_ptr<diag::Accountant> accountant;
  std::optional<diag::Sampling> sampling;
  for (const Device device : s.options.devices) synchronize(device);  // initial weights
  if (s.options.account) {
    accountant = std::make_unique<diag::Accountant>(s.options.devices);
    sampling.emplace(s.options.devices);
  }
  try {
    TrainingLoop(s, sampling ? &*sampling : nullptr).run(result);
  } catch (const std::exception& e) {
    s.stop_agreed.reset();
    if (s.options.group) s.options.group->abort(e.what());
    throw;
  }
  s.stop_agreed.reset();
  if (!accountant) return result;
  for (const Device device : s.options.devices)
    result.accounts.push_back({device, accountant->read(device), sampling->recorded(device)});
  result.account = result.accounts[0].account;
  return result;
}

void Trainer::save() {
  const State& s = *state_;
  if (s.out.empty()) return;
  const diag::Scope scope("save weights", diag::Cause::checkpoint);
  io::AtomicFile file(s.out + "/" + kWeightsFile, io::Links::replace);
  io::write_safetensors(file, s.model->state_dict(), weights_metadata(s.weights_info()));
  file.commit();
}

std::optional<Evaluation> Trainer::State::evaluate(std::optional<Split>& on) {
  if (!on) return std::nullopt;
  try {
    return brim::train::evaluate(*model, *on->feed, recipe, on->data, [&](double fraction) {
      if (options.stage) options.stage("evaluate", fraction);
      return !stop_asked();
    });
  } catch (const Error&) {
    if (!stop_asked()) throw;
    return std::nullopt;
  }
}

std::optional<Evaluation> Trainer::test() {
  return state_->rank() == 0 ? state_->evaluate(state_->test) : std::nullopt;
}

TrainResult Trainer::run() {
  TrainResult result = train();
  if (result.stopped) return result;
  save();
  result.test = test();
  return result;
}

}  // namespace brim::train
