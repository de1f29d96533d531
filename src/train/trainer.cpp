// Making a Trainer, and what surrounds its loop.
#include <brim/train/trainer.h>

#include <brim/core/random.h>
#include <brim/core/sim.h>
#include <brim/core/tf32.h>
#include <brim/diag/sampling.h>
#include <brim/dist/sync_batch_norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/train/heat_guard.h>
#include <brim/train/weights.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/check.h"
#include "core/runtime.h"
#include "diag/gpu_sensor.h"
#include "diag/span.h"
#include "dist/profile_links.h"
#include "io/atomic_file.h"
#include "io/hash.h"
#include "io/safetensors_writer.h"
#include "plan/pass.h"
#include "train/build.h"
#include "train/evaluate.h"
#include "train/metric/registry.h"
#include "train/status_publisher.h"
#include "train/task/open.h"
#include "train/trainer_state.h"
#include "train/training_loop.h"
#include "train/weights_metadata.h"

namespace brim::train {

namespace {

constexpr int64_t kMaxStepsPerGraph = 10000;
constexpr int64_t kMostWrong = 16;   // samples of the test split that are told
constexpr int64_t kTestBatch = 100;  // pictures at least, where nothing is learned

}  // namespace

const OpenData& SharedData::get() const {
  const std::shared_future<OpenData> own = data_;  // each thread asks through one of its own
  try {
    return own.get();
  } catch (const std::future_error&) {
    raise<DistError>("[train] the rank that opens the data has ended");
  }
}

void SharedData::end() { promise_ = {}; }

Trainer::State::State(const Recipe& r, TrainOptions o, std::vector<Device> all, SharedData& shared)
    : recipe(r), options(std::move(o)), devices(std::move(all)), task(make_task(r)) {
  BRIM_CHECK(r.virtual_ranks <= 1 || !plan::PassSelection(options.passes).contains(plan::kRounding),
             ValueError,
             "[train] the pass {} rounds what has no room, so the bits would not be those of {} "
             "virtual ranks on any number of devices; leave one of the two out "
             "(TrainOptions::passes, Recipe::virtual_ranks)",
             plan::kRounding, r.virtual_ranks);
  virtual_ranks = choose_virtual_ranks();
  if (virtual_ranks > 1 && !takes_one_part(recipe))
    recipe.virtual_ranks = virtual_ranks;  // what decides the bits is kept
  if (world_size() > 1) {
    check_ranks_agree(fmt::format(
        "{}compile = {}\npasses = {}\nmax_steps = {}\nsteps_per_graph = {}\nsharded checkpoints = "
        "{}, every {} steps, {} s\n",
        recipe.learned_toml(), options.compile, options.passes, options.max_steps,
        options.steps_per_graph, options.checkpoint.sharded, options.checkpoint.every_steps,
        options.checkpoint.every_seconds));
    // Plans of all ranks are alike, and who looks at gradients is rank 0.
    options.keep_gradients =
        options.group->all_gather_text(options.keep_gradients ? "keep" : "")[0] == "keep";
  }
  const std::vector<std::string> metrics = metrics_of(*task, r);
  decisive_metric = !r.validation.by.empty() ? r.validation.by : metrics.empty() ? "" : metrics[0];
  BRIM_CHECK(
      decisive_metric.empty() ||
          std::find(metrics.begin(), metrics.end(), decisive_metric) != metrics.end(),
      ValueError,
      "[train] validation.by is '{}', which is none of the metrics of task {} ({}); add it to "
      "Recipe::metrics",
      decisive_metric, r.task, fmt::join(metrics, ", "));
  OpenData data = options.devices[0] == devices[0] ? open() : shared.get();
  if (devices.size() > 1 && options.devices[0] == devices[0]) shared.set(data);
  train = split_of(std::move(data.train), true);
  const MetricOptions measured{.outputs = train->data.outputs, .device = options.devices[0]};
  const bool shares = can_be_shared(metrics, measured) && world_size() > 1;  // made now, too
  if (data.validation) validation = split_of(std::move(*data.validation), false, shares);
  if (data.test) test = split_of(std::move(*data.test), false);
  input = input_shape(train->data, r);

  manual_seed(recipe.seed);
  model = make_network(recipe, train->data, options.devices[0]);
  // Before a checkpoint sets the random numbers that go on from here.
  if (!recipe.distill.teacher.empty()) teacher = make_teacher();
  make_optimizer_of_model();
  if (autocast_dtype(recipe) == DType::f16) scaler.emplace(options.devices[0]);
  prepare_ranks();
  if (!options.weights.empty() && at.steps == 0) begin_with_weights();
  if (recipe.prune.is_of_channels() && at.steps == 0) leave_out_channels();
  if (recipe.sync_batch_norm && options.group &&
      dist::convert_sync_batch_norm(*model, options.group) == 0 && options.warn)
    options.warn(
        fmt::format("{} has no batch norm; sync_batch_norm changes nothing", recipe.model));
  if (options.group || virtual_ranks > 1)
    parallel.emplace(*model, options.group ? options.group : dist::local_groups(1)[0],
                     virtual_ranks);
  if (parallel) {
    parallel->compress_gradients(gradient_dtype(recipe));
    parallel->overlap(plan::PassSelection(options.passes).contains("overlap"));
    parallel->exchange(options.exchange_gradients);
  }
  for (std::optional<Split>* split : {&train, &validation, &test})
    if (*split) (*split)->feed = make_feed((*split)->loader);
}

namespace {

/// The file's weights, into a network that is to train or to teach; `warn` may be null.
void load_floats(const WeightsFile& file, nn::Module& network,
                 const std::function<void(const std::string&)>& warn) {
  load_weights(file, network);
  if (const size_t count = file.int8_count(); count > 0 && warn)
    warn(fmt::format("{} weights of {} are in 8-bit integers; floats are made of them", count,
                     file.path()));
  check_finite(network, file.path());
}

}  // namespace

std::unique_ptr<nn::Module> Trainer::State::make_teacher() {
  std::optional<WeightsFile> file;
  try {
    file.emplace(recipe.distill.teacher);
  } catch (const FileError& e) {
    raise<FileError>(
        "[train] the teacher cannot be read: {}; name another one "
        "(Recipe::distill.teacher)",
        e.what());
  }
  teacher_hash = io::hash_file(recipe.distill.teacher).hex;
  const WeightsInfo info = read_weights_info(*file);
  const std::string& path = file->path();
  BRIM_CHECK(info.recipe, ValueError,
             "[train] the teacher {} does not say which recipe it was trained by; give a file that "
             "brim has trained",
             path);
  BRIM_CHECK(info.recipe->task == recipe.task, ValueError,
             "[train] the teacher {} was trained for the task {}, and {} is for {}", path,
             info.recipe->task, recipe.name, recipe.task);
  BRIM_CHECK(info.classes.empty() || same_classes(info.classes, train->data.names), ValueError,
             "[train] the {} classes of the teacher {} are not the {} of {}, or in another order",
             info.classes.size(), path, train->data.names.size(), recipe.data);
  const Shape its_input = input_shape(train->data, *info.recipe);
  BRIM_CHECK(its_input == input && (info.input.rank() == 0 || info.input == input), ValueError,
             "[train] the teacher {} takes inputs {}, and {} makes {}", path,
             (info.input.rank() > 0 ? info.input : its_input).str(), recipe.name, input.str());
  const InputRecipe &its = info.recipe->input, &ours = recipe.input;
  BRIM_CHECK(its.mean == ours.mean && its.std == ours.std, ValueError,
             "[train] the teacher {} was trained with input.mean = {} and input.std = {}, and {} "
             "has {} and {}; give both the same",
             path, its.mean, its.std, recipe.name, ours.mean, ours.std);
  std::unique_ptr<nn::Module> network = make_network(*info.recipe, train->data, options.devices[0]);
  load_floats(*file, *network, options.warn);
  network->eval();
  return network;
}

void Trainer::State::make_optimizer_of_model() {
  parameters = model->parameters();
  optimizer = make_optimizer(recipe.optimizer, *model);
  schedule = make_schedule(recipe, *optimizer, train->loader.batches());
}

void Trainer::State::begin_with_weights() {
  load_floats(WeightsFile(options.weights), *model, options.warn);
}

/// All now, so that a damaged test split is not found out after hours of training.
OpenData Trainer::State::open() const {
  OpenData all{.train = open(data::Split::train, true)};
  if (recipe.validation.fraction > 0) {
    // Pictures are the same whether they train or not: their transform is the loader's.
    const TaskData same =
        all.train.pictures ? all.train : open(data::Split::train, false, &all.train);
    ValidationParts parts = split_off(all.train, same, *task, recipe);
    all.train = std::move(parts.train);
    all.validation = std::move(parts.validation);
  }
  try {
    all.test = open(data::Split::test, false, &all.train);
  } catch (const data::NoSuchSplit&) {
    return all;
  }
  BRIM_CHECK(
      all.test->outputs == all.train.outputs && same_classes(all.test->names, all.train.names),
      ValueError,
      "[train] {}: its test split has {} classes and its training split {}, or others; give "
      "both the same",
      recipe.data, all.test->outputs, all.train.outputs);
  return all;
}

TaskData Trainer::State::open(data::Split split, bool training, const TaskData* like) const {
  return open_data(*task, recipe, {split, training, open_progress(), like});
}

Trainer::State::Split Trainer::State::split_of(TaskData data, bool training, bool shared) const {
  Recipe how = recipe;
  if (!training && data.pictures) how.batch = std::max<int64_t>(recipe.batch, kTestBatch);
  const int64_t samples = data.pictures ? data.pictures->size() : data.samples->size();
  shared = shared && (samples - 1) / how.batch + 1 >= world_size();
  data::Loader loader =
      loader_of(how, data, training, options.workers, place(),
                shared ? batches_of_rank(samples, how.batch, rank(), world_size()) : nullptr);
  return {std::move(data), std::move(loader), shared, {}};
}

WeightsInfo Trainer::State::weights_info() const {
  return {recipe, train->data.names, train->data.columns, train->data.targets, input};
}

LoaderPlace Trainer::State::place() const {
  AugmentOn augment_on = options.augment_on;
  if (options.data_on_device) augment_on = AugmentOn::device;
  return {options.devices[0], augment_on, rank(), world_size(), virtual_ranks};
}

data::DeviceLoader Trainer::State::make_feed(const data::Loader& from) const {
  return {from,
          options.devices,
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

namespace {

void check_options(const Recipe& recipe, const TrainOptions& options) {
  check_recipe(recipe);
  BRIM_CHECK(!options.devices.empty(), ValueError, "[train] no device; name one or more");
  for (const Device device : options.devices) {
    check_available(device);
    BRIM_CHECK(std::ranges::count(options.devices, device) == 1, ValueError,
               "[train] {} is there twice; name each device once", device.str());
    if (recipe.precision != "tf32") continue;
    const std::string missing = Tf32::missing(device);
    BRIM_CHECK(missing.empty(), DeviceError,
               "[train] precision tf32 on {} needs NVIDIA's libraries, but {}; or use "
               "Recipe::precision=fp32",
               device.str(), missing);
  }
  BRIM_CHECK(!options.board || options.board->size() == options.devices.size(), ValueError,
             "[train] TrainOptions::board is for {} devices and the training has {}; give both the "
             "same",
             options.board->size(), options.devices.size());
  BRIM_CHECK(options.augment_on != AugmentOn::host || !options.data_on_device, ValueError,
             "[train] data on the device is augmented there; leave TrainOptions::augment_on out");
  BRIM_CHECK(!options.repeat_batch || !options.data_on_device, ValueError,
             "[train] TrainOptions::repeat_batch repeats a batch that the loader brings; leave "
             "TrainOptions::data_on_device out");
  BRIM_CHECK(options.exchange_gradients || options.out.empty(), ValueError,
             "[train] without TrainOptions::exchange_gradients each device has weights of its own; "
             "leave TrainOptions::out out");
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
  const size_t processes = options.group ? static_cast<size_t>(options.group->size()) : 1;
  BRIM_CHECK(options.devices.size() == 1 || processes == 1, ValueError,
             "[train] each of several processes has one device, not {}; start one for each device",
             options.devices.size());
}

/// Of several devices. Virtual accelerators that are paced have the links of their profile.
std::vector<dist::GroupPtr> groups_of(const std::vector<Device>& devices) {
  const int count = static_cast<int>(devices.size());
  const dist::GroupOptions options{.timeout = 0};
  const SimOptions sim = sim_options();
  const bool all_sim = std::ranges::all_of(
      devices, [](const Device& device) { return device.kind == DeviceKind::sim; });
  if (!all_sim || !sim.paced || sim.profile.empty()) return dist::local_groups(count, options);
  return dist::paced_groups(
      count, dist::links_of(sim::load_profile(sim.profile), count, sim.slowdown), options);
}

/// Of all devices' to those of one of them.
TrainOptions options_of_rank(const TrainOptions& all, size_t rank, const dist::GroupPtr& group) {
  TrainOptions own = all;
  own.devices = {all.devices[rank]};
  own.group = group;
  const int ranks = static_cast<int>(all.devices.size());
  if (own.workers > 0) own.workers = (own.workers + ranks - 1) / ranks;
  if (rank == 0) return own;
  own.progress = {};
  own.stage = {};
  own.first_step = {};
  own.warn = [](const std::string&) {};  // null would be standard error
  return own;
}

}  // namespace

/// Those of one process: one for each device, in a thread of its own but the first one.
class Trainer::Ranks {
 public:
  Ranks(const Recipe& recipe, const TrainOptions& options)
      : groups_(options.devices.size() > 1 ? groups_of(options.devices)
                                           : std::vector<dist::GroupPtr>{options.group}),
        states_(groups_.size()) {
    SharedData shared;
    run([&](size_t rank) {
      try {
        states_[rank] = std::make_unique<State>(
            recipe, options_of_rank(options, rank, groups_[rank]), options.devices, shared);
      } catch (...) {
        if (rank == 0) shared.end();
        throw;
      }
    });
  }

  State& operator[](size_t rank) const { return *states_[rank]; }
  size_t size() const { return states_.size(); }
  /// Calls f with all of them at the same time. Throws what one threw, after the end of all.
  void run(const std::function<void(size_t rank)>& f) const {
    if (!groups_[0]) return f(0);
    dist::run_ranks(groups_, [&](dist::ProcessGroup& group) {
      f(groups_.size() == 1 ? 0 : static_cast<size_t>(group.rank()));
    });
  }

 private:
  std::vector<dist::GroupPtr> groups_;  // null for one rank without others
  std::vector<std::unique_ptr<State>> states_;
};

Trainer::Trainer(const Recipe& recipe, TrainOptions options) {
  if (StatusBoard* const board = options.board)
    options.stage = [board, tell = options.stage](const char* stage, double fraction) {
      board->set_stage(stage, fraction);
      if (tell) tell(stage, fraction);
    };
  try {
    check_options(recipe, options);
  } catch (const std::exception& e) {
    if (options.group) options.group->abort(e.what());
    throw;
  }
  ranks_ = std::make_unique<Ranks>(recipe, options);
}
Trainer::~Trainer() = default;
void Trainer::set_phase(RunPhase phase) const {
  if (StatusBoard* const board = (*ranks_)[0].options.board) board->set_phase(phase);
}
nn::Module& Trainer::model() { return *(*ranks_)[0].model; }
const data::Loader& Trainer::loader() const { return (*ranks_)[0].train->feed->loader(); }
const TaskData& Trainer::data() const { return (*ranks_)[0].train->data; }
const data::Loader* Trainer::test_loader() const {
  const auto& test = (*ranks_)[0].test;
  return test ? &test->loader : nullptr;
}
const std::string& Trainer::resumed_from() const { return (*ranks_)[0].resumed_from; }
std::string Trainer::input() const { return (*ranks_)[0].train->feed->describe(); }
int64_t Trainer::steps_before() const { return (*ranks_)[0].steps_before; }
int64_t Trainer::virtual_ranks() const { return (*ranks_)[0].virtual_ranks; }

TrainResult Trainer::State::train_rank() {
  TrainResult result;
  std::unique_ptr<diag::Accountant> accountant;
  std::optional<diag::Sampling> sampling;
  const Device device = options.devices[0];
  synchronize(device);  // initial weights
  if (options.account) {
    accountant = std::make_unique<diag::Accountant>(options.devices);
    sampling.emplace(options.devices);
  }
  const ActivityOnBoard shown(options.board, rank_on_board(devices, device), accountant.get());
  const auto begin = std::chrono::steady_clock::now();
  diag::GpuSensor* const sensor = diag::gpu_sensor(device.kind);
  const std::optional<double> worked = sensor ? sensor->worked(device.index) : std::nullopt;
  try {
    TrainingLoop(*this, {accountant.get(), sampling ? &*sampling : nullptr}).run(result);
  } catch (...) {
    stop_agreed.reset();
    throw;
  }
  stop_agreed.reset();
  if (!accountant) return result;
  result.account = accountant->read(device);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  result.clocks = {{.device = device, .seconds = took.count()}};
  if (worked) result.clocks[0].worked = sensor->worked(device.index).value_or(0) - *worked;
  if (options.board)
    publish_account(options.board->rank(rank_on_board(devices, device)), result.account);
  result.accounts = {{device, result.account, sampling->recorded(device)}};
  return result;
}

TrainResult Trainer::train() {
  set_phase(RunPhase::training);
  std::vector<TrainResult> results(ranks_->size());
  try {
    ranks_->run([&](size_t rank) { results[rank] = (*ranks_)[rank].train_rank(); });
  } catch (...) {
    set_phase(RunPhase::failed);
    throw;
  }
  TrainResult result = std::move(results[0]);
  for (size_t rank = 1; rank < results.size(); ++rank) {
    result.accounts.insert(result.accounts.end(), results[rank].accounts.begin(),
                           results[rank].accounts.end());
    result.clocks.insert(result.clocks.end(), results[rank].clocks.begin(),
                         results[rank].clocks.end());
  }
  if ((*ranks_)[0].world_size() > 1 && (*ranks_)[0].options.group) {
    result.heat_pauses = (*ranks_)[0].heat_pauses;
    result.heat_seconds = (*ranks_)[0].heat_seconds;
  } else if (const HeatGuard* const heat = (*ranks_)[0].options.heat) {
    result.heat_pauses = heat->pauses();
    result.heat_seconds = heat->seconds();
  }
  return result;
}

void Trainer::save() {
  const State& s = (*ranks_)[0];
  if (s.out.empty()) return;
  const diag::Scope scope("save weights", diag::Cause::checkpoint);
  io::AtomicFile file(s.out + "/" + kWeightsFile, io::Links::replace);
  io::write_safetensors(file, s.model->state_dict(), weights_metadata(s.weights_info()));
  file.commit();
}

std::optional<Evaluation> Trainer::State::evaluate(std::optional<Split>& on, int64_t most_wrong) {
  if (!on) return std::nullopt;
  try {
    return evaluate_shared(
        *model, *on->feed, recipe, on->data, on->is_shared ? options.group.get() : nullptr,
        [&](double fraction) {
          if (options.stage) options.stage("evaluate", fraction);
          return !stop_asked();
        },
        most_wrong);
  } catch (const EvaluationStopped&) {  // on any rank's stop
    return std::nullopt;
  }
}

std::optional<Evaluation> Trainer::test() {
  set_phase(RunPhase::evaluating);
  return (*ranks_)[0].rank() == 0 ? (*ranks_)[0].evaluate((*ranks_)[0].test, kMostWrong)
                                  : std::nullopt;
}

std::optional<Evaluation> Trainer::validate() {
  set_phase(RunPhase::evaluating);
  std::vector<std::optional<Evaluation>> of_ranks(ranks_->size());
  ranks_->run([&](size_t rank) {
    State& state = (*ranks_)[rank];
    of_ranks[rank] = state.evaluate(state.validation);
  });
  return std::move(of_ranks[0]);
}

TrainResult Trainer::run() {
  TrainResult result = train();
  try {
    if (!result.stopped) {
      save();
      result.test = test();
    }
  } catch (...) {
    set_phase(RunPhase::failed);
    throw;
  }
  set_phase(result.stopped ? RunPhase::stopped : RunPhase::finished);
  return result;
}

}  // namespace brim::train
