// `brim eval RECIPE --weights FILE --data PATH`: the metrics of its task.
#include <brim/core/threads.h>
#include <brim/train/trainer.h>
#include <brim/train/weights.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "command/command.h"
#include "command/compressed_layers.h"
#include "command/data_option.h"
#include "command/device_option.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/memory_limit.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/say.h"
#include "command/with_weights.h"
#include "core/check.h"
#include "train/recipe_model.h"

namespace brim::command {
namespace {

struct EvalOptions {
  std::string recipe, weights, data, device = "auto", split = "test", memory_limit, json;
  int64_t batch = 100;
  int threads = 0;
};

/// Of a recipe what changes an evaluation.
std::string what_is_evaluated(const train::Recipe& recipe) {
  train::Recipe r{.task = recipe.task, .model = recipe.model, .input = recipe.input};
  r.input.crop_padding = 0;  // these are for training only
  r.input.random_resized_crop = r.input.flip = false;
  r.input.scaled_decode = true;
  r.input.on_corrupt = "raise";
  return r.toml();
}

/// The asked recipe, which must prepare pictures as the weights' own one did.
train::Recipe chosen_recipe(const EvalOptions& o, const train::WeightsInfo& info) {
  BRIM_CHECK(
      !o.recipe.empty() || info.recipe, ValueError,
      "[eval] {} does not say which recipe made it; name one: brim eval RECIPE --weights ...",
      o.weights);
  train::Recipe r = o.recipe.empty()
                        ? *info.recipe
                        : train::with_channels_of(train::load_recipe(o.recipe), info.recipe);
  if (info.recipe)
    BRIM_CHECK(
        what_is_evaluated(r) == what_is_evaluated(*info.recipe), ValueError,
        "[eval] {} was trained by recipe {}, whose task, model or [input] differs from that of {}; "
        "leave the recipe out to use the weights' own",
        o.weights, info.recipe->name, o.recipe);
  if (!o.data.empty()) r.data = o.data;
  r.batch = o.batch;
  return r;
}

int evaluate(const EvalOptions& o, const ChosenDevices& chosen) {
  const Device device = chosen.devices[0];
  if (o.threads > 0) set_num_threads(o.threads);
  set_memory_limit(device, o.memory_limit);
  const train::WeightsFile file(o.weights);
  const train::WeightsInfo info = train::read_weights_info(file);
  const train::Recipe recipe = chosen_recipe(o, info);
  ProgressDisplay display(is_stdout(o.json));
  const auto show = [&](const char* stage) {
    return [&display, stage](double fraction) { return display.show(stage, fraction), true; };
  };
  const train::TaskData trained_on{
      .names = info.classes, .targets = info.targets, .columns = info.columns};
  const train::OpenSplit split =
      train::open_split(recipe, data::parse_split(o.split), false, -1, show("open"),
                        {device, train::AugmentOn::automatic}, &trained_on);
  display.finish();
  const std::vector<std::string>& classes = split.data.names;
  BRIM_CHECK(
      info.classes.empty() || train::same_classes(info.classes, classes), ValueError,
      "[eval] the {} classes of {} are not the {} that {} was trained on, or in another order",
      classes.size(), recipe.data, info.classes.size(), o.weights);
  const auto model =
      with_weights(file, device, [&] { return train::make_network(recipe, split.data, device); });
  const std::string compressed = use_compressed_layers(*model, recipe, file);
  if (!compressed.empty() && !is_stdout(o.json)) say(stdout, "{}\n", compressed);
  data::DeviceLoader feed(split.loader, device);

  const auto begin = std::chrono::steady_clock::now();
  const train::Evaluation result =
      train::evaluate(*model, feed, recipe, split.data, show("evaluate"),
                      /*most_wrong=*/16);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  display.finish();
  BRIM_CHECK(std::isfinite(result.loss), ValueError,
             "[eval] the loss on {} is {}: {} holds weights that are no numbers, or too large; use "
             "others",
             recipe.data, result.loss, o.weights);
  if (!is_stdout(o.json)) say(stdout, "{}", Lines{evaluation_table(result, o.split)});
  const auto json = to_json(result);
  if (!o.json.empty())
    write_json({{"recipe", recipe.name},
                {"task", recipe.task},
                {"data", recipe.data},
                {"split", o.split},
                {"weights", o.weights},
                {"device", device.str()},
                {"device_choice", chosen.json()},
                {"samples", result.samples},
                {"skipped", result.skipped},
                {"images_per_s", static_cast<double>(result.samples) / seconds.count()},
                {"loss", result.loss},
                {"accuracy", json["metrics"].value("accuracy", nlohmann::ordered_json(nullptr))},
                {"metrics", json["metrics"]},
                {"classes", json["classes"]},
                {"per_class", json["per_class"]},
                {"confusion", json["confusion"]},
                {"most_wrong", json["most_wrong"]},
                {"versions", build_versions()}},
               o.json);
  return 0;
}

int run(const EvalOptions& o) {
  check_json_path(o.json);
  check_outputs({{"--json", o.json}},
                {{"the recipe", o.recipe}, {"the weights", o.weights}, {"the data", o.data}});
  const ChosenDevices chosen = choose_one(o.device);
  tell_choice(chosen, is_stdout(o.json));
  return on_chosen(chosen, [&] { return evaluate(o, chosen); });
}

const Register eval_command(
    {"eval", "measure how well trained weights do", [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<EvalOptions>();
       args.add("recipe", o->recipe, "built-in recipe or FILE.toml; default: the weights' own");
       args.add("--weights", o->weights, "a .safetensors, .pth or .pt file").required();
       add_data_option(args, o->data);
       args.add("--split", o->split, "test, train or all").show_default();
       args.add("--device", o->device,
                "auto (the GPU with the most free memory, or the CPU), cpu, cuda:N or sim:N")
           .show_default();
       args.add("--batch", o->batch, "samples at once").range(1, 1000000);
       args.add("--threads", o->threads, "CPU threads per op").range(1, 4096);
       args.add("--memory-limit", o->memory_limit,
                "of the device, for example 2G, or auto: what is free");
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
