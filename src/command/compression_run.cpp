#include "command/compression_run.h"

#include <brim/autograd/autograd.h>
#include <brim/compress/prune.h>
#include <brim/core/threads.h>
#include <brim/data/device_loader.h>
#include <brim/dist/launch.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/plan/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "command/data_option.h"
#include "command/device_option.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/report.h"
#include "command/say.h"
#include "command/signals.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/nearest.h"
#include "core/write_cure.h"
#include "train/recipe_model.h"
#include "train/run_folder.h"
#include "train/task/open.h"

namespace brim::command {
namespace {

/// The median of a compiled pass, in seconds, measured for so many. The thread of the sensors goes
/// on meanwhile: of each second it takes less than 0.3 ms (Zen 5, without a GPU), in which few
/// passes are, and the median leaves those out.
double median_forward(nn::Module& network, const Tensor& x, const std::atomic<int>& stop,
                      double seconds) {
  auto forward = compile([&](const Tensor& in) { return network(in); },
                         {.fall_back = true, .warn = [](const std::string&) {}});
  (void)forward(x);  // what is measured once, and what is cold
  std::vector<double> all;
  const double begin = steady_seconds();
  while (stop == 0 &&
         (all.size() < 5 || (steady_seconds() - begin < seconds && all.size() < 1000))) {
    const double at = steady_seconds();
    (void)forward(x);
    synchronize(x.device());
    all.push_back(steady_seconds() - at);
  }
  if (all.empty()) return 0;
  std::ranges::sort(all);
  return all[all.size() / 2];
}

/// How much more often samples are predicted right after than before, as a fraction.
struct PairedDifference {
  double mean = 0, low = 0, high = 0;  ///< 95 %, by the normal distribution of the mean

  PairedDifference(const std::vector<bool>& before, const std::vector<bool>& after) {
    const auto n = static_cast<double>(before.size());
    double gained = 0, lost = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      gained += after[i] && !before[i] ? 1 : 0;
      lost += before[i] && !after[i] ? 1 : 0;
    }
    mean = (gained - lost) / n;
    // Where none has changed, fewer than 3 of n do (the rule of three).
    const double half =
        gained + lost == 0 ? 3 / n : 1.96 * std::sqrt(((gained + lost) / n - mean * mean) / n);
    low = mean - half;
    high = mean + half;
  }
};

}  // namespace

void CompressionArguments::add_to(Arguments args) {
  args.add("recipe", recipe, "built-in recipe or FILE.toml; default: the weights' own");
  args.add("--weights", weights, "a .safetensors, .pth or .pt file").required();
  args.add("--lr", lr, "learning rate of the fine-tuning, instead of the recipe's").range(0.0, 1e9);
  args.add("--batch", batch, "samples per step").range(1, 1000000);
  add_data_option(args, data);
  args.add("--device", device, "auto, cpu, cuda:N or sim:N").show_default();
  args.add("--threads", threads, "CPU threads per op").range(1, 4096);
  add_watch_options(args, *this);
  args.add("--json", json, "write the result to a file, or - for standard output");
}

train::Recipe recipe_of(const CompressionArguments& o, const char* what) {
  const std::optional<train::Recipe> own =
      train::read_weights_info(train::WeightsFile(o.weights)).recipe;
  BRIM_CHECK(!o.recipe.empty() || own, ValueError,
             "[{}] {} does not say which recipe it was trained by; give one", what, o.weights);
  train::Recipe r =
      o.recipe.empty() ? *own : train::with_channels_of(train::load_recipe(o.recipe), own);
  if (o.recipe.empty()) {  // how it was trained, by a teacher that may be gone
    r.distill = {};
    r.prune = {.pattern = r.prune.pattern,  // and it is as sparse as it was to become
               .sparsity = r.prune.sparsity,
               .scope = r.prune.scope,
               .dense = r.prune.dense,
               .layers = r.prune.layers};
  }
  if (r.prune.is_of_channels()) r.prune = {};  // the weights are of those that are left
  if (!o.data.empty()) r.data = o.data;
  if (o.lr) r.optimizer.lr = *o.lr;
  if (o.batch) r.batch = *o.batch;
  return r;
}

void check_finetune(const CompressionArguments& o, int64_t epochs) {
  if (epochs == 0 && !o.tensorboard.empty())
    throw UsageError(
        "--tensorboard shows a training, and --finetune 0 is none; leave one of them out");
}

int run_compression(const CompressionArguments& o, const char* what,
                    const std::vector<NamedPath>& more_outputs,
                    const std::function<int(Device)>& body) {
  if (const dist::LaunchEnvironment launched = dist::launch_environment(); launched.size > 1)
    throw UsageError(
        fmt::format("{} works in one process; to train the result on with several: "
                    "brim train --weights",
                    what));
  check_watch_options(o);
  check_json_path(o.json);
  std::vector<NamedPath> outputs = {{"--json", o.json}};
  outputs.insert(outputs.end(), more_outputs.begin(), more_outputs.end());
  if (!o.out.empty()) outputs.push_back({"--out", o.out + "/model.safetensors"});
  check_outputs(outputs,
                {{"the recipe", o.recipe}, {"the weights", o.weights}, {"the data", o.data}});
  check_beside_run({{"--json", o.json}, {"--tensorboard", o.tensorboard}}, o.out);
  const ChosenDevices chosen = choose_one(o.device);
  tell_choice(chosen, is_stdout(o.json));
  return on_chosen(chosen, [&] {
    if (o.threads > 0) set_num_threads(o.threads);
    return body(chosen.devices[0]);
  });
}

CompressionRun::CompressionRun(const CompressionArguments& o, const char* what, Device device,
                               train::Recipe recipe, const std::string& trained_in)
    : o_(o),
      quiet_(is_stdout(o.json)),
      what_(what),
      device_(device),
      recipe_(std::move(recipe)),
      display_(quiet_),
      stop_(watch_signals()),
      live_({.command = what, .recipe = recipe_, .folder = o.out}, {device}) {
  if (!o.tensorboard.empty())  // or fail before the long work
    make_folders("tensorboard", o.tensorboard, "choose another --tensorboard");
  live_.serve(o, quiet_);
  begin(recipe_, {.weights = o.weights, .folder = trained_in});
  const train::WeightsInfo info = train::read_weights_info(train::WeightsFile(o.weights));
  BRIM_CHECK(info.classes.empty() || train::same_classes(info.classes, trainer_->data().names),
             ValueError,
             "[{}] the {} classes of {} are not the {} that {} was trained on, or in another order",
             what, trainer_->data().names.size(), recipe_.data, info.classes.size(), o.weights);
  json_ = {{"command", what},      {"recipe", recipe_.name}, {"weights", o.weights},
           {"data", recipe_.data}, {"task", recipe_.task},   {"device", device.str()}};
  if (o.monitor > 0)
    monitor_.emplace(std::vector<Device>{device},
                     diag::MonitorOptions{o.monitor, [this](const auto& r) { keep(r); }});
}

CompressionRun::~CompressionRun() {
  monitor_.reset();
  if (!live_.has_ended()) warn_of_files();  // by an exception
}

void CompressionRun::begin(const train::Recipe& recipe, const Beginning& from) {
  {
    const std::lock_guard lock(mutex_);
    tensorboard_.reset();
  }
  trainer_.reset();  // what it holds, its folder too, may be needed
  live_.document().begin_training();
  trainer_.emplace(recipe, options(from));
  trained_recipe_ = recipe;
  live_.document().set_steps_before(trainer_->steps_before());
  display_.finish();
}

train::TrainResult CompressionRun::train(const std::string& part) {
  if (!o_.tensorboard.empty()) {
    const std::string folder = part.empty() ? o_.tensorboard : o_.tensorboard + "/" + part;
    const std::lock_guard lock(mutex_);
    tensorboard_.emplace(folder, trained_recipe_, std::vector<Device>{device_}, *trainer_,
                         [this](const std::string& line) { warn(line); });
  }
  trained_ = trainer_->train();
  display_.finish();
  return trained_;
}

void CompressionRun::show(const char* what, double fraction) {
  live_.board().set_stage(what, fraction);
  display_.show(what, fraction);
}

void CompressionRun::done() {
  live_.board().set_phase(train::RunPhase::starting);
  display_.finish();
}

void CompressionRun::show(const train::Progress& progress) {
  if (progress.report) live_.add_report();
  if (tensorboard_) tensorboard_->add(progress, trainer_->model());
  display_.show(progress);
}

void CompressionRun::keep(const diag::Reading& reading) {
  live_.add_reading(reading);
  const std::lock_guard lock(mutex_);
  if (tensorboard_) tensorboard_->add(reading);
}

void CompressionRun::warn(const std::string& line) {
  display_.finish();
  say(stderr, "brim: warning: {}\n", line);
}

/// Its sensors, too.
void CompressionRun::end(train::RunPhase phase) {
  monitor_.reset();
  live_.end(phase);
  warn_of_files();
}

/// That could not be opened or written.
void CompressionRun::warn_of_files() {
  if (!live_.unwatched().empty()) warn(live_.unwatched());
  for (const std::string& error : live_.errors()) warn(error);
}

train::TrainOptions CompressionRun::options(const Beginning& from) {
  train::TrainOptions options = train::with_speed({.devices = {device_}}, recipe_.speed);
  options.weights = from.weights;
  options.out = from.folder;
  if (from.resumes) options.resume = from.folder;
  options.stop = &stop_;
  options.board = &live_.board();
  options.keep_gradients = !o_.tensorboard.empty();
  options.progress = [this](const train::Progress& p) { show(p); };
  options.stage = [this](const char* stage, double fraction) { display_.show(stage, fraction); };
  options.warn = [this](const std::string& line) { warn(line); };
  return options;
}

std::vector<bool> CompressionRun::right_samples() {
  std::vector<bool> right;
  const data::Loader* const loader = trainer_->test_loader();
  if (recipe_.task != "classify" || !loader) return right;
  const NoGrad scope;
  nn::Module& network = trainer_->model();
  network.eval();
  data::DeviceLoader feed(*loader, device_);
  double compared = 0;
  for (const data::Batch& batch : feed) {
    if (is_stopped()) return {};
    show("compare", compared++ / static_cast<double>(loader->batches()));
    const std::vector<int64_t> said = argmax(network(batch.x), 1).to_vector<int64_t>();
    const std::vector<int64_t> labels = batch.y.to_vector<int64_t>();
    for (size_t i = 0; i < said.size(); ++i) right.push_back(said[i] == labels[i]);
  }
  done();
  return right;
}

std::optional<CompressionRun::Evaluated> CompressionRun::evaluated(const std::string& what) {
  if (is_stopped()) return std::nullopt;
  const std::optional<train::Evaluation> found = trainer_->test();
  done();
  if (!found) return std::nullopt;
  BRIM_CHECK(std::isfinite(found->loss), ValueError,
             "[{}] the loss of the {} network on {} is {}: its weights are no numbers, or too "
             "large; use others",
             what_, what, recipe_.data, found->loss);
  if (tensorboard_) {
    trained_.test = found;
    tensorboard_->add(trained_, trainer_->test_loader());
  }
  Json json = {{"loss", found->loss}, {"metrics", command::to_json(*found)["metrics"]}};
  std::string difference;
  const std::vector<bool> right = right_samples();
  if (right_before_.empty()) {
    right_before_ = right;
  } else if (right.size() == right_before_.size()) {
    const PairedDifference d(right_before_, right);
    json["accuracy_difference"] = {{"mean", d.mean}, {"low", d.low}, {"high", d.high}};
    difference = fmt::format(" ({:+.2f}; 95 %: {:+.2f} to {:+.2f})", 100 * d.mean, 100 * d.low,
                             100 * d.high);
  }
  if (!quiet_)
    say(stdout, "{:<11} loss {:.4f}, {}{}\n", what, found->loss, metrics_line(*found), difference);
  return Evaluated{.evaluation = *found, .json = std::move(json)};
}

void CompressionRun::evaluate(const char* what, const char* key) {
  if (const std::optional<Evaluated> found = evaluated(what)) {
    json_[key] = found->json;
  } else if (!is_stopped() && !quiet_ && std::string_view(key) == "dense") {
    say(stdout, "{} has no test split: nothing is evaluated\n", recipe_.data);
  }
}

void CompressionRun::check_layer_names(const char* option, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const auto& layer : compress::pruned_layers(trainer_->model(), {}))
    known.push_back(layer.name);
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end())
      throw UsageError(fmt::format("{} {}: no convolution or linear layer has that name{}", option,
                                   name, suggestion(name, known)));
}

std::vector<Tensor> CompressionRun::calibration_inputs(int64_t samples) {
  constexpr int64_t kMaxBatch = 64;
  train::Recipe r = recipe_;
  r.batch = std::min(samples, kMaxBatch);
  r.input.crop_padding = 0;
  r.input.random_resized_crop = r.input.flip = false;
  const train::OpenSplit split = train::open_split(
      r, data::Split::train, true, -1,
      [this](double fraction) { return show("open", fraction), true; },
      {device_, train::AugmentOn::automatic}, &trainer_->data());
  data::DeviceLoader feed(split.loader, device_);
  std::vector<Tensor> inputs;
  int64_t count = 0;
  for (const data::Batch& batch : feed) {
    const int64_t wanted = std::min(batch.x.size(0), samples - count);
    if (wanted <= 0 || is_stopped()) break;
    inputs.push_back(batch.x.slice(0, 0, wanted).clone());
    count += wanted;
  }
  done();
  return inputs;
}

Tensor CompressionRun::random_batch(int64_t samples) const {
  const Shape input = train::input_shape(trainer_->data(), recipe_);
  if (recipe_.task != "classify" || input.rank() == 0) return {};
  Shape shape{samples};
  for (const int64_t size : input) shape.push_back(size);
  return rand(shape, {.device = device_});
}

double CompressionRun::forward_seconds(const Tensor& x, double measured_for) {
  const NoGrad scope;
  trainer_->model().eval();
  return median_forward(trainer_->model(), x, stop_, measured_for);
}

void CompressionRun::report_times(const char* before, const char* after,
                                  const std::function<void()>& change) {
  json_["times"] = nullptr;
  std::vector<Tensor> batches;
  for (const int64_t samples : {1, 16})
    if (const Tensor x = random_batch(samples); x.defined()) batches.push_back(x);
  std::vector<double> first;
  for (const Tensor& x : batches) first.push_back(forward_seconds(x));
  change();
  for (size_t i = 0; i < batches.size(); ++i) {
    const double second = forward_seconds(batches[i]);
    json_["times"].push_back({{"batch", batches[i].size(0)},
                              {fmt::format("{}_s", before), first[i]},
                              {fmt::format("{}_s", after), second}});
    if (!quiet_)
      say(stdout, "batches of {}: {:.3f} ms {}, {:.3f} ms {}, {:.2f} x\n", batches[i].size(0),
          1e3 * first[i], before, 1e3 * second, after, first[i] / second);
  }
}

void CompressionRun::write() {
  json_["time"] = unix_seconds();
  json_["seconds"] = steady_seconds() - began_;
  json_["versions"] = build_versions();
  if (!o_.out.empty()) write_json(json_, o_.out + "/" + train::kResultFile);
  if (!o_.json.empty()) write_json(json_, o_.json);
  end(train::RunPhase::finished);
}

int CompressionRun::stopped(const std::string& what_to_do) {
  end(train::RunPhase::stopped);
  say(stderr, "brim: stopped; {}\n", what_to_do);
  return 128 + stop_.load();
}

}  // namespace brim::command
