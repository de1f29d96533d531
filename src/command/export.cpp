// `brim export --weights FILE -o FILE`: a trained network for other programs to run, as an engine
// or as ONNX.
#include <brim/deploy/engine.h>
#include <brim/deploy/onnx.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "command/command.h"
#include "command/engine_ports.h"
#include "command/exported_port.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/progress.h"
#include "command/report.h"
#include "command/say.h"
#include "command/shared_path.h"
#include "command/trained_network.h"
#include "core/check.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;

struct ExportOptions {
  std::string weights, recipe, out, input, json, runtime, target;
  std::vector<int64_t> batches;
  EnginePorts ports;
  int threads = 0;
  bool onnx = false, symmetric = false, overwrite = false;
};

constexpr int64_t kMaxBatch = 65536;

/// Of one input, without the batch.
Shape input_of(const TrainedNetwork& net, const ExportOptions& o) {
  if (!o.input.empty()) return parse_shape(o.input, "--input");
  const train::InputRecipe& input = net.recipe.input;
  if (net.info.input.rank() == 0 && net.recipe.task != "language" && input.size > 0)
    return {input.channels > 0 ? input.channels : 3, input.size, input.size};
  BRIM_CHECK(net.info.input.rank() > 0, ValueError,
             "[export] {} does not say how large an input is; give its sizes, as --input 3x32x32",
             o.weights);
  return net.info.input;
}

std::string list(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// What a program must know to use the file.
std::map<std::string, std::string> metadata_of(
    const TrainedNetwork& net, const Shape& input,
    const std::optional<deploy::EnginePictures>& pictures = {}) {
  std::map<std::string, std::string> all = {{"model", net.recipe.model}, {"task", net.recipe.task}};
  const auto add = [&](const char* key, const std::vector<std::string>& names) {
    if (!names.empty()) all[key] = list(names);
  };
  add("classes", net.info.classes);
  add("columns", net.info.columns);
  add("targets", net.info.targets);
  if (pictures) {
    all.merge(command::metadata_of(*pictures, input[0]));
  } else if (net.recipe.task != "language" && input.rank() == 3) {
    all["mean"] = list(net.recipe.input.mean);
    all["std"] = list(net.recipe.input.std);
    all["input"] = "pixels in [0, 1], channels first, minus mean, divided by std";
  }
  return all;
}

/// An open network, and an example of its input.
struct Source {
  TrainedNetwork net;
  Shape input;  ///< without the batch
  Tensor example;
};

Source open_source(const ExportOptions& o) {
  TrainedNetwork net = open_network("export", o.weights, o.recipe, Device::cpu());
  train::check_finite(*net.network, o.weights);
  const Shape input = input_of(net, o);
  Shape shape = input;
  shape.insert(0, 1);
  const Tensor example =
      Tensor::empty(shape, net.recipe.task == "language" ? DType::i64 : DType::f32, Device::cpu());
  return {std::move(net), input, example};
}

/// Files for others hold no layers that are stored without zeros.
void say_zeros(const TrainedNetwork& net) {
  if (net.recipe.prune.has_masks())
    say(stdout, "weights that pruning made zeros are written, too\n");
}

int export_onnx(const ExportOptions& o) {
  std::optional<int64_t> size;
  if (o.batches.size() > 1)
    throw UsageError(fmt::format("--batch {}: an ONNX file is for one size or for any",
                                 fmt::join(o.batches, ",")));
  if (!o.batches.empty()) size = o.batches[0];
  const Source source = open_source(o);
  const TrainedNetwork& net = source.net;
  const deploy::OnnxSummary made = deploy::save_onnx(
      o.out, *net.network, source.example,
      {.batch = size, .symmetric_int8 = o.symmetric, .metadata = metadata_of(net, source.input)});
  std::vector<ExportedPort> outputs;
  for (const deploy::OnnxOutput& output : made.outputs)
    outputs.push_back({output.name, output.sizes, std::string(name(output.dtype))});
  if (!is_stdout(o.json) && !is_stdout(o.out)) {
    say(stdout, "{}: {} in ONNX, opset {}: {} nodes, {} weights and constants, {}\n", o.out,
        net.recipe.model, made.opset, made.nodes, made.initializers, format_bytes(made.bytes));
    input_port(source.input, source.example.dtype(), size ? std::to_string(*size) : "batch")
        .print("input");
    for (const ExportedPort& output : outputs) output.print("output");
    if (!net.int8.empty()) say(stdout, "{}: QDQ\n", net.int8);
    say_zeros(net);
  }
  if (!o.json.empty())
    write_json({{"file", o.out},
                {"format", "onnx"},
                {"model", net.recipe.model},
                {"opset", made.opset},
                {"bytes", made.bytes},
                {"nodes", made.nodes},
                {"initializers", made.initializers},
                {"operators", made.operators},
                {"input", std::vector<int64_t>(source.input.begin(), source.input.end())},
                {"outputs", to_json(outputs)},
                {"batch", size ? Json(*size) : Json(nullptr)},
                {"versions", build_versions()}},
               o.json);
  return 0;
}

/// The root of the runtime's sources.
std::string runtime_sources() {
  const std::optional<std::filesystem::path> root =
      shared_path("share/brim/rt/src/rt/step.h", "src/rt/step.h");
  BRIM_CHECK(
      root, FileError,
      "[export] --runtime: the runtime's sources are in no folder above this command; install "
      "brim with `cmake --install`");
  return root->parent_path().parent_path().parent_path();
}

std::string target_of(const ExportOptions& o) { return o.target.empty() ? "native" : o.target; }

int export_engine(const ExportOptions& o) {
  if (o.symmetric) throw UsageError("--symmetric: it is for --onnx");
  if (is_stdout(o.out)) throw UsageError("--out: an engine is written to a file");
  const std::vector<int64_t> batches = o.batches.empty() ? std::vector<int64_t>{1} : o.batches;
  const std::string sources = o.runtime.empty() ? "" : runtime_sources();
  const Source source = open_source(o);
  const TrainedNetwork& net = source.net;
  const auto pictures = pictures_of(o.ports, net, source.input);
  Shape input = source.input;
  if (pictures) input = {pictures->height, pictures->width, source.input[0]};
  const DType dtype = pictures ? DType::u8 : source.example.dtype();
  deploy::EngineOptions options{.batches = batches,
                                .labels = net.info.classes,
                                .metadata = metadata_of(net, source.input, pictures),
                                .pictures = pictures,
                                .threads = o.threads};
  ProgressDisplay display(is_stdout(o.json));
  options.progress = [&](const std::string& what, double done) { display.show(what, done); };
  choose_output(o.ports, net, options);
  const deploy::EngineSummary made =
      deploy::save_engine(o.out, *net.network, source.example, options);
  display.finish();
  const std::string any_batch = fmt::format("{}", fmt::join(batches, " or "));
  const std::vector<ExportedPort> outputs = outputs_of_engine(o.out, any_batch);
  if (!o.runtime.empty())
    deploy::save_runtime(sources, o.runtime, {.target = target_of(o), .kernels = made.kernels});
  if (!is_stdout(o.json)) {
    say(stdout, "{}: {} as an engine: {} steps, {}, {} of memory\n", o.out, net.recipe.model,
        made.steps, format_bytes(made.bytes), format_bytes(made.session_bytes));
    input_port(input, dtype, any_batch).print("input");
    for (const ExportedPort& output : outputs) output.print("output");
    if (!net.int8.empty()) say(stdout, "{}\n", net.int8);
    say_zeros(net);
    say(stdout, "outputs within {:.2g} of the largest one of the network's\n", made.difference);
    if (!o.runtime.empty())
      say(stdout, "{}: the runtime of it, for {}: cmake -S {} -B build && cmake --build build\n",
          o.runtime, target_of(o), o.runtime);
  }
  if (!o.json.empty())
    write_json({{"file", o.out},
                {"format", "engine"},
                {"model", net.recipe.model},
                {"bytes", made.bytes},
                {"weight_bytes", made.weight_bytes},
                {"session_bytes", made.session_bytes},
                {"steps", made.steps},
                {"operators", made.operators},
                {"difference", made.difference},
                {"input", std::vector<int64_t>(input.begin(), input.end())},
                {"input_dtype", name(dtype)},
                {"outputs", to_json(outputs)},
                {"output", o.ports.output.empty() ? "scores" : o.ports.output},
                {"batches", batches},
                {"versions", build_versions()}},
               o.json);
  return 0;
}

int run(const ExportOptions& o) {
  for (const int64_t batch : o.batches)
    if (batch < 1 || batch > kMaxBatch || std::ranges::count(o.batches, batch) > 1)
      throw UsageError(fmt::format("--batch {}: sizes are from 1 to {}, each once, as 1,8",
                                   fmt::join(o.batches, ","), kMaxBatch));
  check_json_path(o.json);
  check_outputs({{"--out", o.out}, {"--json", o.json}},
                {{"the recipe", o.recipe}, {"the weights", o.weights}});
  std::error_code error;
  if (!o.overwrite && exists(std::filesystem::symlink_status(o.out, error)))
    throw UsageError(fmt::format("--out: {} exists; give --overwrite to replace it", o.out));
  check_output_path("out", o.out);
  if (o.onnx && !o.runtime.empty()) throw UsageError("--runtime: it is for engines");
  if (o.onnx && !o.ports.is_default())
    throw UsageError("--pictures, --bgr, --output: they are for engines");
  if (o.onnx && o.threads > 0) throw UsageError("--threads: it is for engines");
  if (o.runtime.empty() && !o.target.empty()) throw UsageError("--target: it is for --runtime");
  if (!o.onnx && o.out.ends_with(".onnx"))
    throw UsageError(
        fmt::format("--out {}: give --onnx for ONNX, or call the engine model.brim", o.out));
  if (!o.runtime.empty() && exists(std::filesystem::symlink_status(o.runtime, error)) &&
      (!is_directory(std::filesystem::path(o.runtime)) ||
       !is_empty(std::filesystem::path(o.runtime))))
    throw UsageError(fmt::format("--runtime: {} is there, and is no empty folder", o.runtime));
  try {
    return o.onnx ? export_onnx(o) : export_engine(o);
  } catch (const OutOfMemory& e) {
    throw UsageError(
        fmt::format("{}: the network takes {} of memory or more, and {} are free; give less of "
                    "--input, --pictures or --batch",
                    o.weights, format_bytes(e.requested), format_bytes(e.free)));
  }
}

const Register export_command(
    {"export", "write a trained network for other programs to run: an engine, or ONNX",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<ExportOptions>();
       args.add("--weights", o->weights, "a .safetensors, .pth or .pt file").required();
       args.add("--recipe", o->recipe, "for weights that do not name their recipe");
       args.flag("--onnx", o->onnx,
                 "as an ONNX file, layers in 8-bit integers as QDQ: for ONNX Runtime, TensorRT "
                 "(default: an engine for the small runtime, libbrim_rt)");
       args.add("-o,--out", o->out, "the file to write").required().file();
       args.add("--batch", o->batches,
                "samples of a batch; an engine holds several sizes, as 1,8 (default: 1, with "
                "--onnx any number)")
           .comma_separated();
       args.add("--input", o->input,
                "sizes of one input, as 3x224x224, for weights that do not say, or others");
       args.add("--pictures", o->ports.pictures,
                "an engine takes pictures of this height and width, as 480x640, bytes as a camera "
                "or decoder gives them, and resizes, crops and normalises them as predict does");
       args.add("--output", o->ports.output,
                "what an engine makes of the scores of classes: softmax (their probabilities), "
                "top:K (the K largest probabilities and which classes they are) or classes (the "
                "likeliest class, of masks that of each pixel)");
       args.flag("--bgr", o->ports.bgr, "their pixels are blue, green, red, as OpenCV has them");
       args.flag(
           "--symmetric", o->symmetric,
           "inputs of layers in 8-bit integers as i8 around 0, as TensorRT wants them, not as "
           "u8");
       args.add("--threads", o->threads,
                "that an engine's layers are measured with (default: one for each core)")
           .range(1, 1024);
       args.add("--runtime", o->runtime,
                "a new folder for the sources of a runtime with what the engine needs alone");
       args.add("--target", o->target, "that this runtime is compiled for (default: native)")
           .one_of({"native", "x86-64-v2", "x86-64-v3", "x86-64-v4", "armv8-a", "armv8.2-a"});
       args.flag("--overwrite", o->overwrite, "replace the file that is there");
       args.add("--json", o->json, "write what was made to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
