// `brim prune RECIPE --weights F`: makes weights zero in a pattern, trains the others on, and tells
// what that costs of the metric and brings of the time.
#include <brim/autograd/autograd.h>
#include <brim/compress/prune.h>
#include <brim/core/threads.h>
#include <brim/dist/launch.h>
#include <brim/ops/create.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "command/command.h"
#include "command/device_option.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/say.h"
#include "command/signals.h"
#include "command/sparse_layers.h"
#include "core/check.h"
#include "core/clock.h"
#include "train/task/open.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

struct PruneArguments {
  std::string recipe, weights, data, out, device = "auto", pattern, json;
  std::vector<std::string> dense;
  std::optional<double> sparsity, over;
  int64_t finetune = 5;
  std::optional<double> lr;
  std::optional<int64_t> batch;
  int threads = 0;
};

train::Recipe pruned_recipe(const PruneArguments& o) {
  const std::optional<train::Recipe> own =
      train::read_weights_info(train::WeightsFile(o.weights)).recipe;
  BRIM_CHECK(!o.recipe.empty() || own, ValueError,
             "[prune] {} does not say which recipe it was trained by; give one", o.weights);
  train::Recipe r = o.recipe.empty() ? *own : train::load_recipe(o.recipe);
  if (!o.data.empty()) r.data = o.data;
  if (o.lr) r.optimizer.lr = *o.lr;
  if (o.batch) r.batch = *o.batch;
  r.epochs = std::max<int64_t>(o.finetune, 1);
  // What the recipe says, but for what is asked for.
  if (!o.pattern.empty()) r.prune.pattern = o.pattern;
  if (r.prune.pattern.empty()) r.prune.pattern = "vector:32";
  if (o.sparsity) r.prune.sparsity = *o.sparsity;
  r.prune.epochs = o.over.value_or(0);
  if (!o.dense.empty()) r.prune.dense = o.dense;
  train::check_recipe(r);
  return r;
}

/// Of a forward pass, without and with sparse layers.
struct ForwardTimes {
  int64_t batch;
  double dense = 0, sparse = 0;
};

/// The median, in seconds.
double median_forward(nn::Module& network, const Tensor& x) {
  constexpr double kSeconds = 0.3;
  std::vector<double> all;
  const double begin = steady_seconds();
  while (all.size() < 5 || (steady_seconds() - begin < kSeconds && all.size() < 1000)) {
    const double at = steady_seconds();
    (void)network(x);
    synchronize(x.device());
    all.push_back(steady_seconds() - at);
  }
  std::ranges::sort(all);
  return all[all.size() / 2];
}

/// Makes the network sparse.
std::vector<ForwardTimes> time_forward(nn::Module& network, const train::Recipe& recipe,
                                       const Shape& input, Device device) {
  const NoGrad scope;
  network.eval();
  std::vector<ForwardTimes> all;
  const auto x_of = [&](int64_t batch) {
    Shape shape{batch};
    for (const int64_t size : input) shape.push_back(size);
    return rand(shape, {.device = device});
  };
  for (const int64_t batch : {1, 16})
    all.push_back({.batch = batch, .dense = median_forward(network, x_of(batch))});
  (void)use_sparse_layers(network, recipe);
  for (ForwardTimes& t : all) {
    const Tensor x = x_of(t.batch);
    (void)network(x);  // what is faster is measured
    t.sparse = median_forward(network, x);
  }
  return all;
}

Json layers_json(const std::vector<compress::PrunedLayer>& layers) {
  Json json = Json::array();
  for (const compress::PrunedLayer& layer : layers)
    json.push_back({{"name", layer.name},
                    {"shape", layer.shape.str()},
                    {"sparsity", layer.sparsity},
                    {"dense_because", layer.why.empty() ? Json(nullptr) : Json(layer.why)}});
  return json;
}

/// From the dense network to the pruned one.
class PruneRun {
 public:
  PruneRun(const PruneArguments& o, Device device)
      : o_(o),
        quiet_(is_stdout(o.json)),
        device_(device),
        recipe_(pruned_recipe(o)),
        display_(quiet_),
        stop_(watch_signals()),
        trainer_(recipe_, options()),
        how_{.pattern = compress::parse_pattern(recipe_.prune.pattern),
             .sparsity = recipe_.prune.sparsity,
             .criterion = compress::Criterion::magnitude,
             .dense = recipe_.prune.dense} {
    display_.finish();
    const train::WeightsInfo info = train::read_weights_info(train::WeightsFile(o.weights));
    BRIM_CHECK(
        info.classes.empty() || train::same_classes(info.classes, trainer_.data().names),
        ValueError,
        "[prune] the {} classes of {} are not the {} that {} was trained on, or in another order",
        trainer_.data().names.size(), recipe_.data, info.classes.size(), o.weights);
    json_ = {{"recipe", recipe_.name}, {"weights", o.weights},   {"pattern", recipe_.prune.pattern},
             {"finetune", o.finetune}, {"device", device.str()}, {"dense", nullptr},
             {"pruned", nullptr},      {"fine_tuned", nullptr}};
  }

  int run() {
    evaluate("dense", "dense");
    if (recipe_.prune.epochs == 0) {  // else there is no moment between pruning and training
      (void)compress::Masks(trainer_.model(), how_);
      evaluate("pruned", "pruned");
    }
    int64_t steps = 0;
    if (o_.finetune > 0 && stop_ == 0) {
      steps = trainer_.train().steps;
      display_.finish();
      evaluate("fine-tuned", "fine_tuned");
    }
    if (const int signal = stop_.load()) {
      const bool goes_on = !o_.out.empty() && steps > 0;
      say(stderr, "brim: stopped; {}\n",
          goes_on ? fmt::format("to go on: brim train --resume {} --out {}", shell_word(o_.out),
                                shell_word(o_.out))
                  : std::string("nothing was saved"));
      return 128 + signal;
    }
    tell_layers();
    trainer_.save();
    tell_times();
    if (!quiet_ && !o_.out.empty()) say(stdout, "weights in {}/model.safetensors\n", o_.out);
    json_["versions"] = build_versions();
    if (!o_.json.empty()) write_json(json_, o_.json);
    return 0;
  }

 private:
  train::TrainOptions options() {
    train::TrainOptions options = train::with_speed({.devices = {device_}}, recipe_.speed);
    options.weights = o_.weights;
    options.out = o_.out;
    options.stop = &stop_;
    options.progress = [this](const train::Progress& p) { display_.show(p); };
    options.stage = [this](const char* stage, double fraction) { display_.show(stage, fraction); };
    options.warn = [this](const std::string& line) {
      display_.finish();
      say(stderr, "brim: warning: {}\n", line);
    };
    return options;
  }

  void evaluate(const char* what, const char* key) {
    if (stop_ != 0) return;
    const std::optional<train::Evaluation> found = trainer_.test();
    display_.finish();
    if (!found) {
      if (stop_ == 0 && !quiet_ && std::string_view(key) == "dense")
        say(stdout, "{} has no test split: nothing is evaluated\n", recipe_.data);
      return;
    }
    BRIM_CHECK(std::isfinite(found->loss), ValueError,
               "[prune] the loss of the {} network on {} is {}: its weights are no numbers, or too "
               "large; use others",
               what, recipe_.data, found->loss);
    json_[key] = {{"loss", found->loss}, {"metrics", command::to_json(*found)["metrics"]}};
    if (!quiet_) say(stdout, "{:<11} loss {:.4f}, {}\n", what, found->loss, metrics_line(*found));
  }

  /// Zeros are the least weights, so pruning once more finds what the training has left.
  void tell_layers() {
    const compress::Masks masks(trainer_.model(), how_);
    json_["sparsity"] = masks.sparsity();
    json_["layers"] = layers_json(masks.layers());
    if (quiet_) return;
    for (const compress::PrunedLayer& layer : masks.layers())
      say(stdout, "  {:<28} {:<18} {}\n", layer.name, layer.shape.str(),
          layer.why.empty() ? fmt::format("{:.1f} % zeros", 100 * layer.sparsity)
                            : "dense: " + layer.why);
  }

  void tell_times() {
    json_["times"] = nullptr;
    const Shape input = train::input_shape(trainer_.data(), recipe_);
    const bool is_faster_so = how_.pattern.kind == compress::Pattern::Kind::vector;
    if (!is_faster_so || recipe_.task != "classify" || input.rank() == 0) return;
    for (const ForwardTimes& t : time_forward(trainer_.model(), recipe_, input, device_)) {
      json_["times"].push_back({{"batch", t.batch}, {"dense_s", t.dense}, {"sparse_s", t.sparse}});
      if (!quiet_)
        say(stdout, "batches of {}: {:.3f} ms dense, {:.3f} ms sparse, {:.2f} x\n", t.batch,
            1e3 * t.dense, 1e3 * t.sparse, t.dense / t.sparse);
    }
  }

  const PruneArguments& o_;
  const bool quiet_;
  const Device device_;
  const train::Recipe recipe_;
  ProgressDisplay display_;
  const std::atomic<int>& stop_;
  train::Trainer trainer_;
  const compress::PruneOptions how_;
  Json json_;
};

int run_prune(const PruneArguments& o) {
  if (const dist::LaunchEnvironment launched = dist::launch_environment(); launched.size > 1)
    throw UsageError(
        "prune works in one process; fine-tune with several by a recipe with [prune] "
        "and brim train --weights");
  check_json_path(o.json);
  check_outputs({{"--json", o.json}},
                {{"the recipe", o.recipe}, {"the weights", o.weights}, {"the data", o.data}});
  if (!o.pattern.empty()) {
    const compress::Pattern pattern = compress::parse_pattern(o.pattern);
    if (pattern.kind == compress::Pattern::Kind::n_of_m && o.sparsity)
      throw UsageError(fmt::format("--sparsity {}: the pattern {} says it; leave it out",
                                   *o.sparsity, o.pattern));
  }
  if (o.sparsity && (*o.sparsity <= 0 || *o.sparsity >= 1))
    throw UsageError(fmt::format("--sparsity {}: it is above 0 and below 1", *o.sparsity));
  if (o.over && *o.over > static_cast<double>(o.finetune))
    throw UsageError(
        fmt::format("--over {}: the sparsity rises while the network is trained, which "
                    "--finetune {} ends before; raise that",
                    *o.over, o.finetune));
  const ChosenDevices chosen = choose_one(o.device);
  tell_choice(chosen, is_stdout(o.json));
  return on_chosen(chosen, [&] {
    if (o.threads > 0) set_num_threads(o.threads);
    return PruneRun(o, chosen.devices[0]).run();
  });
}

const Register prune_command(
    {"prune", "make weights zero in a pattern, train the others on, and measure both",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<PruneArguments>();
       args.add("recipe", o->recipe, "built-in recipe or FILE.toml; default: the weights' own");
       args.add("--weights", o->weights, "a .safetensors, .pth or .pt file").required();
       args.add("--pattern", o->pattern,
                "unstructured, N:M as 2:4, or vector:V with V = 4, 8, 16, 32 or 64: a column for V "
                "outputs at once, which inference is faster with (default: the recipe's, or "
                "vector:32)");
       args.add("--sparsity", o->sparsity,
                "zeros among each layer's weights, as 0.75; of N:M it is 1 - N / M (default: the "
                "recipe's, or 0.75)");
       args.add("--dense", o->dense, "a layer that is left as it is, as conv1; may be given again");
       args.add("--finetune", o->finetune, "epochs of training behind it; 0: none")
           .range(int64_t{0}, int64_t{1'000'000})
           .show_default();
       args.add("--over", o->over, "epochs in which the sparsity rises (default: at once)")
           .range(0.0, 1e6);
       args.add("--lr", o->lr, "learning rate, instead of the recipe's").range(0.0, 1e9);
       args.add("--batch", o->batch, "samples per step").range(1, 1000000);
       args.add("--data", o->data, "instead of the recipe's");
       args.add("--device", o->device, "auto, cpu, cuda:N or sim:N").show_default();
       args.add("--threads", o->threads, "CPU threads per op").range(1, 4096);
       args.add("--out", o->out, "folder for model.safetensors and checkpoints");
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run_prune(*o); };
     }});

}  // namespace
}  // namespace brim::command
