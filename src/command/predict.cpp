// `brim predict --weights FILE INPUT...`: what a network says of pictures, tables or texts.
#include <brim/autograd/autograd.h>
#include <brim/core/threads.h>
#include <brim/train/weights.h>

#include <nlohmann/json.hpp>

#include "command/command.h"
#include "command/device_option.h"
#include "command/libraries.h"
#include "command/predictor.h"
#include "command/report.h"
#include "command/say.h"
#include "command/trained_network.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

int predict(const PredictOptions& o, const ChosenDevices& chosen) {
  if (o.threads > 0) set_num_threads(o.threads);
  const TrainedNetwork net =
      open_network("predict", o.weights, o.recipe, chosen.devices[0],
                   [&](const train::Recipe& recipe) { check_can_be_asked(o.weights, recipe); });
  const NoGrad guard;
  const std::unique_ptr<Predictor> predictor = make_predictor(net, o);
  Json all = Json::array();
  for (const std::string& input : o.inputs) {
    Prediction said = predictor->predict(input, [&](const std::string& piece) {
      if (is_stdout(o.json)) return true;
      say(stdout, "{}", Lines{piece});
      return std::fflush(stdout) == 0 || !o.json.empty();  // else nobody reads it
    });
    for (const std::string& line : said.lines)
      if (!is_stdout(o.json)) say(stdout, "{}\n", line);
    for (Json& entry : said.json) all.push_back(std::move(entry));
  }
  if (!o.json.empty())
    write_json(
        {{"weights", o.weights},
         {"task", net.recipe.task},
         {"device", net.device.str()},
         {"device_choice", chosen.json()},
         {net.recipe.task == "classify" && net.info.columns.empty() ? "images" : "predictions",
          all},
         {"versions", build_versions()}},
        o.json);
  return 0;
}

int run(const PredictOptions& o) {
  check_json_path(o.json);
  std::vector<NamedPath> inputs = {{"the recipe", o.recipe}, {"the weights", o.weights}};
  for (const std::string& path : o.inputs) inputs.push_back({"an input", path});
  check_outputs({{"--json", o.json}}, inputs);
  const ChosenDevices chosen = choose_one(o.device);
  tell_choice(chosen, is_stdout(o.json));
  return on_chosen(chosen, [&] { return predict(o, chosen); });
}

const Register predict_command(
    {"predict", "ask a trained network of pictures, tables or texts",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<PredictOptions>();
       args.add("--weights", o->weights, "a .safetensors, .pth or .pt file").required();
       args.add("input", o->inputs,
                "JPEG or PNG files; CSV files for a network of tables; texts that one of language "
                "goes on with")
           .required();
       args.add("--recipe", o->recipe, "for weights that do not name their recipe");
       args.add("--top", o->top, "how many classes to show").range(1, 1000);
       args.add("--out", o->out, "folder for masks, as PNG");
       args.add("--length", o->length, "tokens to write").range(int64_t{1}, int64_t{1} << 30);
       args.add(
               "--temperature", o->temperature,
               "of tokens drawn by their probability: lower is surer, 0 always takes the likeliest")
           .range(0.0, 100.0)
           .show_default();
       args.add("--seed", o->seed, "of these draws").show_default();
       args.add("--device", o->device,
                "auto (the GPU with the most free memory, or the CPU), cpu, cuda:N or sim:N")
           .show_default();
       args.add("--threads", o->threads, "CPU threads per op").range(1, 4096);
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
