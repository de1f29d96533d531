// See deploy.h.
#include "bench/command/deploy.h"

#include <brim/nn/models.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/command/deploy_samples.h"
#include "bench/command/python.h"
#include "command/command.h"
#include "command/report.h"
#include "command/suggest.h"

namespace brim::command {
namespace {

void check_models(const DeployArguments& a) {
  const std::vector<std::string> known = nn::model_names();
  for (const std::string& model : a.models)
    if (std::find(known.begin(), known.end(), model) == known.end())
      throw UsageError(fmt::format("there is no network '{}'{}; there are {}", model,
                                   hint(model, known), fmt::join(known, ", ")));
  if (!a.weights.empty() && !a.models.empty())
    throw UsageError("--weights names a network, and so do the names; give one of them");
  if (a.weights.ends_with(".brim"))
    throw UsageError(fmt::format(
        "--weights {}: it is an engine; give the weights that it was made of, which all sides get",
        a.weights));
  if (a.weights.empty() && !a.recipe.empty()) throw UsageError("--recipe is of --weights");
}

}  // namespace

Arguments define_deploy(Arguments bench, DeployArguments& d) {
  Arguments deploy =
      bench.subcommand("deploy", "engines beside ONNX Runtime, OpenVINO, ncnn and PyTorch");
  deploy.add("models", d.models,
             "networks by name, with random weights (default: tutorial-cnn, mobilenet_v2, "
             "resnet18, resnet50)");
  deploy.add("--weights", d.weights, "a trained network instead").file();
  deploy.add("--recipe", d.recipe, "for weights that do not name their recipe");
  deploy.add("--python", d.python,
             "a Python that has the others (default: $BRIM_PYTHON, then python3)");
  deploy.add("--precision", d.precisions, "fp32 or int8 (default: both; of weights, their own)")
      .one_each()
      .one_of({"fp32", "int8"});
  deploy.add("--batch", d.batches, "sizes of batches, comma-separated (default: 1,16)")
      .comma_separated()
      .range(int64_t{1}, int64_t{65536});
  deploy.add("--part", d.parts, "time, or process: start-up, memory and sizes (default: both)")
      .one_each()
      .one_of({"time", "process"});
  deploy.add("--side", d.sides, "brim, onnxruntime, openvino, ncnn or torch (default: all there)")
      .one_each()
      .one_of({"brim", "onnxruntime", "openvino", "ncnn", "torch"});
  deploy.add("--isa", d.isa, "avx2: nobody uses more, where that can be set (default: the CPU's)")
      .one_of({"avx2", "avx512"});
  deploy.add("--rounds", d.rounds, "alternating rounds").range(1, 10000);
  deploy.add("--seconds", d.seconds, "length of a measurement").range(0.001, 3600.0);
  deploy.add("--threads", d.threads, "CPU threads of each side (default: all)").range(1, 4096);
  deploy.add("--json", d.json, "write the report to FILE (- for standard output)").file();
  deploy.add("--svg", d.svg, "draw the report as bars").file();
  deploy.add("--samples", d.samples, "write weights and samples there, as the script asks for");
  return deploy;
}

int run_deploy(const DeployArguments& a) {
  check_models(a);
  if (!a.samples.empty()) {
    if (a.precisions.size() != 1 || a.batches.empty() || a.models.size() + !a.weights.empty() != 1)
      throw UsageError("--samples takes one network, one --precision and a --batch");
    const bool in_integers = a.precisions[0] == "int8";
    write_json(a.weights.empty()
                   ? write_random_network(a.models[0], in_integers, a.batches, a.samples)
                   : write_samples_of(a.weights, a.recipe, a.batches, a.samples),
               a.json.empty() ? "-" : a.json);
    return 0;
  }
  check_json_path(a.json);
  check_output_path("svg", a.svg);
  check_outputs({{"--json", a.json}, {"--svg", a.svg}},
                {{"the weights", a.weights}, {"the recipe", a.recipe}});
  std::vector<std::string> words;
  const auto option = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  option("--weights", a.weights);
  option("--recipe", a.recipe);
  for (const std::string& part : a.parts) option("--part", part);
  for (const std::string& side : a.sides) option("--side", side);
  for (const std::string& precision : a.precisions) option("--precision", precision);
  for (const int64_t batch : a.batches) option("--batch", std::to_string(batch));
  option("--isa", a.isa);
  option("--json", a.json);
  option("--svg", a.svg);
  if (a.threads > 0) option("--threads", std::to_string(a.threads));
  if (a.rounds > 0) option("--rounds", std::to_string(a.rounds));
  if (a.seconds > 0) option("--seconds", fmt::format("{}", a.seconds));
  words.emplace_back("--");
  words.insert(words.end(), a.models.begin(), a.models.end());
  exec_script(a.python, "compare_deploy.py", words);
}

}  // namespace brim::command
