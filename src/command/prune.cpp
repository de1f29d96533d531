// `brim prune RECIPE --weights F`: makes weights zero in a pattern, trains the others on, and tells
// what that costs of the metric and brings of the time.
#include <brim/autograd/autograd.h>
#include <brim/compress/prune.h>
#include <brim/core/threads.h>
#include <brim/ops/create.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "command/command.h"
#include "command/device_option.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/say.h"
#include "command/signals.h"
#include "command/sparse_layers.h"
#include "command/start.h"
#include "core/check.h"
#include "core/clock.h"
#include "train/task/open.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

struct PruneArguments {
  std::string recipe, weights, data, out, device = "auto", pattern = "vector:32", json;
  std::vector<std::string> dense;
  double sparsity = 0.75, over = 0;
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
  r.prune = {.pattern = o.pattern, .sparsity = o.sparsity, .epochs = o.over, .dense = o.dense};
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
    Shape shape = input;
    Shape with_batch = Shape{batch};
    for (const int64_t size : shape) with_batch.push_back(size);
    return rand(with_batch, {.device = device});
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

int prune_weights(const PruneArguments& o, const ChosenDevices& chosen) {
  const bool quiet = is_stdout(o.json);
  const Device device = chosen.devices[0];
  if (o.threads > 0) set_num_threads(o.threads);
  const train::Recipe recipe = pruned_recipe(o);
  ProgressDisplay display(quiet);
  const std::atomic<int>& stop = watch_signals();
  train::TrainOptions options = train::with_speed({.devices = {device}}, recipe.speed);
  options.weights = o.weights;
  options.out = o.out;
  options.stop = &stop;
  options.progress = [&](const train::Progress& p) { display.show(p); };
  options.stage = [&](const char* stage, double fraction) { display.show(stage, fraction); };
  options.warn = [&](const std::string& line) {
    display.finish();
    say(stderr, "brim: warning: {}\n", line);
  };
  train::Trainer trainer(recipe, options);
  display.finish();
  Json json = {{"recipe", recipe.name},  {"weights", o.weights},   {"pattern", o.pattern},
               {"sparsity", o.sparsity}, {"finetune", o.finetune}, {"device", device.str()}};
  const auto tell = [&](const char* what) {
    const std::optional<train::Evaluation> found = trainer.test();
    display.finish();
    if (!found) return;
    json[what] = {{"loss", finite(found->loss)}, {"metrics", command::to_json(*found)["metrics"]}};
    if (!quiet) say(stdout, "{:<11} loss {:.4f}, {}\n", what, found->loss, metrics_line(*found));
  };

  tell("dense");
  compress::Masks masks(trainer.model(), {.pattern = compress::parse_pattern(o.pattern),
                                          .sparsity = o.sparsity,
                                          .criterion = compress::Criterion::magnitude,
                                          .dense = o.dense});
  json["layers"] = layers_json(masks.layers());
  json["zeros"] = masks.sparsity();
  if (!quiet)
    for (const compress::PrunedLayer& layer : masks.layers())
      say(stdout, "  {:<28} {:<18} {}\n", layer.name, layer.shape.str(),
          layer.why.empty() ? fmt::format("{:.1f} % zeros", 100 * layer.sparsity)
                            : "dense: " + layer.why);
  tell("pruned");
  if (o.finetune > 0) {
    const train::TrainResult result = trainer.train();
    display.finish();
    if (result.stopped) {
      say(stderr, "brim: stopped; {}\n",
          o.out.empty() ? std::string("nothing was saved")
                        : fmt::format("go on with: brim train --resume {}", shell_word(o.out)));
      return 128 + stop.load();
    }
    tell("fine-tuned");
  }
  trainer.save();
  const train::TaskData& data = trainer.data();
  const Shape input = train::input_shape(data, recipe);
  if (recipe.task == "classify" && input.rank() > 0) {
    const std::vector<ForwardTimes> times = time_forward(trainer.model(), recipe, input, device);
    for (const ForwardTimes& t : times) {
      json["times"].push_back({{"batch", t.batch}, {"dense_s", t.dense}, {"sparse_s", t.sparse}});
      if (!quiet)
        say(stdout, "batches of {}: {:.3f} ms dense, {:.3f} ms sparse, {:.2f} x\n", t.batch,
            1e3 * t.dense, 1e3 * t.sparse, t.dense / t.sparse);
    }
  }
  if (!quiet && !o.out.empty()) say(stdout, "weights in {}/model.safetensors\n", o.out);
  json["versions"] = build_versions();
  if (!o.json.empty()) write_json(json, o.json);
  return 0;
}

int run_prune(const PruneArguments& o) {
  check_json_path(o.json);
  check_outputs({{"--json", o.json}},
                {{"the recipe", o.recipe}, {"the weights", o.weights}, {"the data", o.data}});
  (void)compress::parse_pattern(o.pattern);
  const ChosenDevices chosen = choose_one(o.device);
  tell_choice(chosen, is_stdout(o.json));
  return on_chosen(chosen, [&] { return prune_weights(o, chosen); });
}

const Register prune_command(
    {"prune", "make weights zero in a pattern, train the others on, and measure both",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<PruneArguments>();
       args.add("recipe", o->recipe, "built-in recipe or FILE.toml; default: the weights' own");
       args.add("--weights", o->weights, "a .safetensors, .pth or .pt file").required();
       args.add("--pattern", o->pattern,
                "unstructured, N:M as 2:4, or vector:V with V = 4, 8, 16, 32 or 64: a column for V "
                "outputs at once, which inference is faster with")
           .show_default();
       args.add("--sparsity", o->sparsity, "zeros among each layer's weights")
           .range(0.0, 1.0)
           .show_default();
       args.add("--dense", o->dense, "a layer that is left as it is, as conv1; may be given again");
       args.add("--finetune", o->finetune, "epochs of training behind it; 0: none")
           .range(int64_t{0}, int64_t{1'000'000})
           .show_default();
       args.add("--over", o->over, "epochs in which the sparsity rises; 0: at once")
           .range(0.0, 1e6)
           .show_default();
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
