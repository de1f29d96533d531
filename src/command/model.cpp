// `brim model NAME`: layers, shapes, parameters, operations and a drawing of a network.
#include <brim/deploy/summary.h>
#include <brim/nn/init.h>
#include <brim/nn/models.h>
#include <brim/train/task.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "command/command.h"
#include "command/format.h"
#include "command/libraries.h"
#include "command/network_svg.h"
#include "command/recipe_or_network.h"
#include "command/report.h"
#include "command/say.h"
#include "core/check.h"
#include "io/atomic_file.h"
#include "train/recipe_model.h"
#include "train/task/open.h"

namespace brim::command {
namespace {

using Json = nlohmann::ordered_json;
using deploy::ModuleSummary;
using deploy::NetworkSummary;

struct ModelCommand {
  std::string name, data, input, json, svg;
  int64_t batch = 1;
  std::optional<int64_t> classes, size;
  int depth = -1;  // below 0: all
};

/// What the network is made for.
struct ModelInput {
  Shape input;  ///< of one x
  int64_t outputs = 0;
  bool takes_tokens = false;
};

/// The recipe; of a network without one of its name the first built-in one that trains it, or one
/// of its family ("unet" of "unet-small").
train::Recipe recipe_for(const std::string& name) {
  train::Recipe recipe = recipe_or_network(name, "model");
  const std::vector<std::string> names = train::recipe_names();
  if (recipe.model != name || std::ranges::find(names, name) != names.end()) return recipe;
  for (const std::string& other : names) {
    train::Recipe known = train::load_recipe(other);
    if (known.model != name && !known.model.starts_with(name + "-")) continue;
    known.name = known.model = name;
    return known;
  }
  if (name.find("cifar") != std::string::npos) recipe.input.size = 32;
  return recipe;
}

/// By what the command line says, else by the recipe's data where it is at hand, else as usual:
/// pictures of 224 x 224 and the thousand classes of ImageNet, ten of small pictures.
ModelInput input_for(const ModelCommand& o, train::Recipe recipe) {
  constexpr int64_t kPicture = 224, kSmall = 64;
  ModelInput made_for{.takes_tokens = recipe.task == "language"};
  if (!o.data.empty()) recipe.data = o.data;
  if (o.size) recipe.input.size = *o.size;
  const std::vector<std::string> drawn = train::data_names();
  const bool is_language = made_for.takes_tokens && o.data.empty();
  if (!o.data.empty() || std::ranges::find(drawn, recipe.data) != drawn.end()) {
    const auto task = train::make_task(recipe);
    const train::TaskData data = train::open_data(*task, recipe, {});
    made_for.input = train::input_shape(data, recipe);
    made_for.outputs = data.outputs;
  } else if (is_language) {
    made_for.input = {recipe.input.window};
    made_for.outputs = recipe.input.vocabulary;
  } else {
    const int64_t side = recipe.input.size > 0 ? recipe.input.size : kPicture;
    made_for.input = {recipe.input.channels > 0 ? recipe.input.channels : 3, side, side};
    made_for.outputs = side <= kSmall ? 10 : 1000;
  }
  if (o.size && made_for.input.rank() != 3)
    throw UsageError(fmt::format(
        "--size {}: it is of pictures, and an input of {} is {}; give its sizes by --input",
        *o.size, o.name, made_for.input.str()));
  if (!o.input.empty()) made_for.input = parse_shape(o.input, "--input");
  if (o.classes) made_for.outputs = *o.classes;
  BRIM_CHECK(made_for.input.rank() > 0, ValueError,
             "[model] {} does not say how large an input is; give its sizes, as --input 3x32x32",
             recipe.data);
  return made_for;
}

NetworkSummary summary_of(const train::Recipe& recipe, const ModelInput& made_for, int64_t batch) {
  const nn::init::SkipInit no_values;
  const auto network = train::make_model(
      recipe, {.classes = made_for.outputs, .input = made_for.input, .device = Device::cpu()});
  Shape shape = made_for.input;
  shape.insert(0, batch);
  try {
    const Tensor input = Tensor::empty(shape, made_for.takes_tokens ? i64 : f32, Device::cpu());
    return deploy::summarize(*network, input);
  } catch (const ShapeError& e) {
    throw UsageError(fmt::format("{} takes no input of {} (--size, --input, --batch, --data): {}",
                                 recipe.model, shape.str(), e.what()));
  } catch (const OutOfMemory& e) {
    throw UsageError(fmt::format(
        "{} of {}: a tensor takes {}, and {} are free; give less of --size, --input or --batch",
        recipe.model, shape.str(), format_bytes(e.requested), format_bytes(e.free)));
  }
}

std::string own_name(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// A line of the table: its indented name, and what stands in the columns.
struct ModelLine {
  std::string name, kind, shape, parameters, flops, activations;
};

std::vector<ModelLine> model_lines(const NetworkSummary& network, int depth) {
  std::vector<ModelLine> lines;
  const auto is_shown = [&](int at) { return depth < 0 || at <= depth; };
  for (size_t i = 0; i < network.modules.size(); ++i) {
    const ModuleSummary& m = network.modules[i];
    if (!is_shown(m.depth)) continue;
    const std::string indent(static_cast<size_t>(2 * m.depth), ' ');
    lines.push_back({indent + (m.name.empty() ? "(network)" : own_name(m.name)),
                     m.options.empty() ? m.kind : fmt::format("{}({})", m.kind, m.options),
                     m.calls == 0 ? (m.flops > 0 ? "" : "not called")
                     : m.output
                         ? m.output->str() + (m.calls > 1 ? fmt::format(" x{}", m.calls) : "")
                         : "",
                     m.parameters > 0 ? fmt::format("{}", m.parameters) : "",
                     m.flops > 0 ? format_count(m.flops) : "",
                     m.activation_bytes > 0 ? format_bytes(m.activation_bytes) : ""});
    const bool has_shown_children = i + 1 < network.modules.size() &&
                                    network.modules[i + 1].depth > m.depth && is_shown(m.depth + 1);
    if (!has_shown_children || m.own_ops.empty()) continue;
    lines.push_back({indent + "  (own)", fmt::format("{}", fmt::join(m.own_ops, " ")), "", "",
                     m.own_flops > 0 ? format_count(m.own_flops) : "",
                     m.own_activation_bytes > 0 ? format_bytes(m.own_activation_bytes) : ""});
  }
  return lines;
}

/// Names of many ops, and options, are shortened.
std::string shortened(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

void print(const ModelCommand& o, const std::string& model, const NetworkSummary& network) {
  constexpr size_t kKind = 46;
  size_t name = 6, kind = 4, shape = 6;
  const std::vector<ModelLine> lines = model_lines(network, o.depth);
  for (const ModelLine& line : lines) {
    name = std::max(name, line.name.size());
    kind = std::max(kind, std::min(kKind, line.kind.size()));
    shape = std::max(shape, line.shape.size());
  }
  say(stdout, "{}: {} {} -> {}; nothing was computed\n\n", model, network.input.str(),
      brim::name(network.input_dtype), network.output.str());
  say(stdout, "{:<{}}  {:<{}}  {:<{}}  {:>11}  {:>8}  {:>11}\n", "module", name, "kind", kind,
      "output", shape, "parameters", "FLOP", "activations");
  for (const ModelLine& line : lines)
    say(stdout, "{:<{}}  {:<{}}  {:<{}}  {:>11}  {:>8}  {:>11}\n", line.name, name,
        shortened(line.kind, kKind), kind, line.shape, shape, line.parameters, line.flops,
        line.activations);
  say(stdout,
      "\nparameters   {} ({}){}\n"
      "forward      {}FLOP for a batch of {}; products count as two: a multiplication and an "
      "addition\n"
      "training     {}FLOP with the gradients\n"
      "activations  {} that a forward pass keeps for the gradients, and {} of input\n",
      network.parameters, format_bytes(network.parameter_bytes),
      network.trained < network.parameters ? fmt::format(", {} of them trained", network.trained)
                                           : "",
      format_count(network.flops), o.batch, format_count(network.flops + network.backward_flops),
      format_bytes(network.activation_bytes), format_bytes(network.input_bytes));
}

Json to_json(const Shape& shape) { return std::vector<int64_t>(shape.begin(), shape.end()); }

Json to_json(const ModelCommand& o, const std::string& model, const NetworkSummary& network) {
  Json json = {{"model", model},
               {"batch", o.batch},
               {"input", to_json(network.input)},
               {"input_dtype", brim::name(network.input_dtype)},
               {"output", to_json(network.output)},
               {"parameters", network.parameters},
               {"trained_parameters", network.trained},
               {"parameter_bytes", network.parameter_bytes},
               {"buffer_bytes", network.buffer_bytes},
               {"input_bytes", network.input_bytes},
               {"activation_bytes", network.activation_bytes},
               {"forward_flops", network.flops},
               {"backward_flops", network.backward_flops},
               {"modules", Json::array()},
               {"nodes", Json::array()}};
  for (const ModuleSummary& m : network.modules)
    json["modules"].push_back({{"name", m.name},
                               {"kind", m.kind},
                               {"options", m.options},
                               {"depth", m.depth},
                               {"calls", m.calls},
                               {"output", m.output ? to_json(*m.output) : Json(nullptr)},
                               {"parameters", m.parameters},
                               {"flops", m.flops},
                               {"activation_bytes", m.activation_bytes},
                               {"own_flops", m.own_flops},
                               {"own_activation_bytes", m.own_activation_bytes},
                               {"own_ops", m.own_ops}});
  for (const deploy::SummaryNode& n : network.nodes)
    json["nodes"].push_back({{"module", n.module},
                             {"ops", n.ops},
                             {"output", to_json(n.output)},
                             {"inputs", n.inputs},
                             {"flops", n.flops},
                             {"activation_bytes", n.activation_bytes}});
  json["versions"] = build_versions();
  return json;
}

int run(const ModelCommand& o) {
  if (o.name.empty()) {
    for (const std::string& name : nn::model_names()) say(stdout, "{}\n", name);
    return 0;
  }
  check_json_path(o.json);
  check_output_path("svg", o.svg);
  if (o.size && !o.input.empty())
    throw UsageError("--size and --input both say how large an input is; give one of them");
  check_outputs({{"--json", o.json}, {"--svg", o.svg}}, {{"the recipe", o.name}});
  const train::Recipe recipe = recipe_for(o.name);
  const NetworkSummary network = summary_of(recipe, input_for(o, recipe), o.batch);
  if (!is_stdout(o.json)) print(o, recipe.model, network);
  if (!o.svg.empty())
    io::write_file_atomically(
        o.svg, network_svg(collapsed(network, o.depth),
                           fmt::format("{}: {} parameters, {}FLOP", recipe.model,
                                       network.parameters, format_count(network.flops))));
  if (!o.json.empty()) write_json(to_json(o, recipe.model, network), o.json);
  return 0;
}

const Register model_command(
    {"model", "a network's layers, shapes, parameters and operations, and a drawing of it",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<ModelCommand>();
       args.add("name", o->name,
                "a network, a built-in recipe or FILE.toml; without it the networks are listed");
       args.add("--batch", o->batch, "samples of the input").range(1, 1000000).show_default();
       args.add("--size", o->size, "width and height of pictures (default: as the recipe says)")
           .range(int64_t{1}, int64_t{65536});
       args.add("--input", o->input, "sizes of one input, as 3x224x224, instead");
       args.add("--classes", o->classes,
                "or other outputs of the network (default: as the recipe's data has; 1000 of large "
                "pictures, 10 of small ones)")
           .range(int64_t{1}, int64_t{1000000});
       args.add("--data", o->data, "that sizes and outputs are taken from, as `brim train --data`");
       args.add("--depth", o->depth, "levels of modules to show and to draw (default: all)")
           .range(0, 100);
       args.add("--svg", o->svg, "draw the network").file();
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o] { return run(*o); };
     }});

}  // namespace
}  // namespace brim::command
