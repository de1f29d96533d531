// `brim prune RECIPE --weights F`: makes weights zero in a pattern, trains the others on, and tells
// what that costs of the metric and brings of the time.
#include <brim/compress/channels.h>
#include <brim/compress/prune.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "command/compressed_layers.h"
#include "command/compression_run.h"
#include "command/format.h"
#include "command/say.h"
#include "core/check.h"
#include "train/pruner.h"
#include "train/recipe_model.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

constexpr const char* kChannels = "channels";
constexpr const char* kLearningRate = "learning-rate";  // else --rewind is a file

struct PruneArguments : CompressionArguments {
  std::string pattern, scope, criterion, schedule, rewind;
  std::vector<std::string> dense;
  std::optional<double> sparsity, over, teach;
  std::optional<int64_t> rounds;
  int64_t finetune = 5;
};

/// What the given recipe says, if one is given.
train::PruneRecipe given_prune(const PruneArguments& o) {
  return o.recipe.empty() ? train::PruneRecipe() : train::load_recipe(o.recipe).prune;
}

bool is_of_channels(const PruneArguments& o) {
  return o.pattern.empty() ? given_prune(o).is_of_channels() : o.pattern == kChannels;
}

/// In rounds, of a network that is trained already.
void ask_for_rounds(const PruneArguments& o, train::PruneRecipe& prune) {
  if (o.over) throw UsageError("--over is of --schedule gradual; of iterative there are --rounds");
  if (o.finetune == 0)
    throw UsageError("--schedule iterative trains after each pruning: --finetune is 1 or more");
  prune.schedule = "iterative";
  prune.is_trained = true;
  prune.epochs = 0;
  prune.rewind_epoch = 0;
  if (o.rounds) prune.rounds = *o.rounds;
  if (o.rewind.empty() && !prune.rewind_weights.empty()) return;  // of the recipe
  const bool is_file = !o.rewind.empty() && o.rewind != kLearningRate;
  if (is_file && !std::filesystem::is_regular_file(o.rewind))
    throw UsageError(
        fmt::format("--rewind: {} is no file; name weights of early in the training, or {}",
                    o.rewind, kLearningRate));
  prune.rewind = is_file ? "weights" : kLearningRate;
  prune.rewind_weights = is_file ? o.rewind : "";
}

/// The dense network is the teacher, if one is asked for; otherwise what the recipe names is.
void choose_teacher(const PruneArguments& o, train::DistillRecipe& distill) {
  if (!o.teach) return;
  distill = {};
  if (*o.teach == 0) return;
  if (!train::read_weights_info(train::WeightsFile(o.weights)).recipe)
    throw UsageError(fmt::format(
        "--teach {}: {} does not say which network it is of; leave it out, or train by a recipe "
        "with [distill]",
        *o.teach, o.weights));
  distill.teacher = std::filesystem::absolute(o.weights).string();
  distill.weight = *o.teach;
}

train::Recipe pruned_recipe(const PruneArguments& o) {
  train::Recipe r = recipe_of(o, "prune");
  r.epochs = std::max<int64_t>(o.finetune, 1);
  if (o.finetune > 0) choose_teacher(o, r.distill);
  // What the recipe says, but for what is asked for.
  if (is_of_channels(o)) {
    r.prune = {};
    train::check_recipe(r);
    return r;
  }
  if (!o.pattern.empty()) r.prune.pattern = o.pattern;
  if (r.prune.pattern.empty()) r.prune.pattern = "vector:32";
  if (o.sparsity) r.prune.sparsity = *o.sparsity;
  if (!o.scope.empty()) r.prune.scope = o.scope;
  if (o.schedule == "gradual") r.prune.schedule = o.schedule;
  if (o.schedule == "iterative" || r.prune.is_iterative()) {
    ask_for_rounds(o, r.prune);
  } else {
    if (o.rounds || !o.rewind.empty())
      throw UsageError(
          fmt::format("{} is of --schedule iterative alone", o.rounds ? "--rounds" : "--rewind"));
    r.prune.epochs = o.over.value_or(0);
  }
  if (!o.dense.empty()) r.prune.dense = o.dense;
  train::check_recipe(r);
  return r;
}

/// From the dense network to the pruned one.
class PruneRun : CompressionRun {
 public:
  PruneRun(const PruneArguments& o, Device device)
      : CompressionRun(o, "prune", device, pruned_recipe(o), o.out),
        arguments_(o),
        how_{.pattern = compress::parse_pattern(recipe_.prune.pattern),
             .sparsity = recipe_.prune.sparsity,
             .scope = train::scope_of(recipe_.prune),
             .criterion = compress::Criterion::magnitude,
             .dense = recipe_.prune.dense,
             .layers = recipe_.prune.layers} {
    check_layer_names("--dense", o.dense);
    json_["pattern"] = recipe_.prune.pattern;
    json_["scope"] = recipe_.prune.scope;
    json_["schedule"] = recipe_.prune.schedule;
    json_["rounds"] = recipe_.prune.is_iterative() ? Json(recipe_.prune.rounds) : Json(nullptr);
    json_["finetune"] = o.finetune;
    for (const char* key : {"dense", "pruned", "fine_tuned"}) json_[key] = nullptr;
  }

  int run() {
    evaluate("dense", "dense");
    if (recipe_.prune.epochs == 0 &&
        !recipe_.prune.is_iterative()) {  // else there is no moment between pruning and training
      (void)compress::Masks(trainer_->model(), how_);
      evaluate("pruned", "pruned");
    }
    int64_t steps = 0;
    if (arguments_.finetune > 0 && !is_stopped()) {
      steps = train().steps;
      evaluate("fine-tuned", "fine_tuned");
    }
    if (is_stopped()) {
      const bool goes_on = !arguments_.out.empty() && steps > 0;
      return stopped(goes_on ? fmt::format("to go on: brim train --resume {} --out {}",
                                           shell_word(arguments_.out), shell_word(arguments_.out))
                             : std::string("nothing was saved"));
    }
    tell_layers();
    trainer_->save();
    if (how_.pattern.kind == compress::Pattern::Kind::vector)
      report_times("dense", "sparse",
                   [this] { (void)use_sparse_layers(trainer_->model(), recipe_); });
    else
      json_["times"] = nullptr;  // others are not faster
    if (!quiet_ && !arguments_.out.empty())
      say(stdout, "weights in {}/model.safetensors\n", arguments_.out);
    write();
    return 0;
  }

 private:
  void tell_layers() {
    const auto layers = compress::pruned_layers(trainer_->model(), how_);
    json_["sparsity"] = compress::sparsity_of(layers);
    json_["layers"] = Json::array();
    for (const compress::PrunedLayer& layer : layers) {
      json_["layers"].push_back(
          {{"name", layer.name},
           {"shape", layer.shape.str()},
           {"sparsity", layer.sparsity},
           {"dense_because", layer.why.empty() ? Json(nullptr) : Json(layer.why)}});
      if (!quiet_)
        say(stdout, "  {:<28} {:<18} {}\n", layer.name, layer.shape.str(),
            layer.why.empty() ? fmt::format("{:.1f} % zeros", 100 * layer.sparsity)
                              : "dense: " + layer.why);
    }
  }

  const PruneArguments& arguments_;
  const compress::PruneOptions how_;
};

/// From a network to one of fewer channels.
class ShrinkChannelsRun : CompressionRun {
 public:
  ShrinkChannelsRun(const PruneArguments& o, Device device)
      : CompressionRun(o, "prune", device, pruned_recipe(o), ""), arguments_(o), how_(how_of(o)) {
    check_layer_names("--dense", o.dense);
    if (!o.out.empty()) check_folder(o.out);
    json_["pattern"] = kChannels;
    json_["criterion"] = criterion_of(o);
    json_["finetune"] = o.finetune;
    for (const char* key : {"dense", "pruned", "fine_tuned"}) json_[key] = nullptr;
  }

  int run() {
    evaluate("dense", "dense");
    if (is_stopped()) return stopped("nothing was saved");
    compress::ShrunkNetwork shrunk;
    report_times("dense", "pruned", [&] { shrunk = shrink(); });
    if (is_stopped()) return stopped("nothing was saved");
    evaluate("pruned", "pruned");
    train_on();
    if (is_stopped()) {
      const bool goes_on = !arguments_.out.empty() && steps_ > 0;
      return stopped(goes_on ? fmt::format("to go on: brim train --resume {} --out {}",
                                           shell_word(arguments_.out), shell_word(arguments_.out))
                             : std::string("nothing was saved"));
    }
    tell_layers(shrunk);
    trainer_->save();
    if (!quiet_ && !arguments_.out.empty())
      say(stdout, "weights in {}/model.safetensors\n", arguments_.out);
    write();
    return 0;
  }

 private:
  /// What the training of the smaller network would find out after all evaluations.
  static void check_folder(const std::string& out) {
    train::make_folder(out);
    if (!train::list_checkpoints(out).empty() ||
        std::filesystem::exists(std::filesystem::path(out) / train::kWeightsFile))
      throw UsageError(fmt::format(
          "--out {}: it holds a training or a network already; give another folder", out));
  }
  static std::string criterion_of(const PruneArguments& o) {
    return o.criterion.empty() ? "activations" : o.criterion;
  }

  /// What the given recipe says, but for what is asked for.
  static compress::ChannelOptions how_of(const PruneArguments& o) {
    compress::ChannelOptions how;
    if (const train::PruneRecipe given = given_prune(o); given.is_of_channels())
      how = {.sparsity = given.sparsity, .dense = given.dense, .layers = given.layers};
    how.sparsity = o.sparsity.value_or(how.sparsity);
    how.criterion = compress::parse_channel_criterion(criterion_of(o));
    if (!o.dense.empty()) how.dense = o.dense;
    return how;
  }

  compress::ShrunkNetwork shrink() {
    constexpr int64_t kSamples = 512;
    const std::vector<Tensor> inputs = calibration_inputs(kSamples);
    BRIM_CHECK(!inputs.empty() || is_stopped(), ValueError,
               "[prune] {} has no training samples to look at", recipe_.data);
    if (inputs.empty()) return {};
    nn::Module& network = trainer_->model();
    json_["parameters"] = {{"dense", network.num_parameters()}};
    auto shrunk = compress::shrink_channels(
        network, inputs[0],
        [&] {
          for (const Tensor& x : inputs) (void)network(x);
        },
        how_);
    json_["parameters"]["pruned"] = network.num_parameters();
    // Over what an earlier run of this command has left.
    shrunk_recipe_.channels = train::with_channels(shrunk_recipe_.channels, shrunk.channels);
    return shrunk;
  }

  /// In a training of the smaller network, whose parameters are other tensors.
  void train_on() {
    if (is_stopped()) return;
    StateDict state;
    for (const auto& [name, value] : trainer_->model().state_dict()) state[name] = value.clone();
    begin(shrunk_recipe_, {.weights = "", .folder = arguments_.out});
    (void)trainer_->model().load_state_dict(state);
    if (arguments_.finetune == 0) return;
    steps_ = train().steps;
    evaluate("fine-tuned", "fine_tuned");
  }

  void tell_layers(const compress::ShrunkNetwork& shrunk) {
    json_["layers"] = Json::array();
    for (const compress::ShrunkLayer& layer : shrunk.layers) {
      json_["layers"].push_back(
          {{"name", layer.name},
           {"shape", layer.before.str()},
           {"pruned_shape", layer.after.str()},
           {"dense_because", layer.why.empty() ? Json(nullptr) : Json(layer.why)}});
      if (!quiet_)
        say(stdout, "  {:<28} {:<18} {}\n", layer.name, layer.before.str(),
            layer.before == layer.after ? "as it was: " + layer.why
            : layer.why.empty()
                ? layer.after.str()
                : fmt::format("{}; keeps its outputs: {}", layer.after.str(), layer.why));
    }
    const auto& count = json_["parameters"];
    if (!quiet_)
      say(stdout, "{} of {} parameters are left\n", count["pruned"].get<int64_t>(),
          count["dense"].get<int64_t>());
  }

  const PruneArguments& arguments_;
  const compress::ChannelOptions how_;
  train::Recipe shrunk_recipe_ = recipe_;
  int64_t steps_ = 0;
};

int run_prune(const PruneArguments& o) {
  const bool are_channels = is_of_channels(o);
  for (const auto& [option, is_given] :
       {std::pair{"--over", o.over.has_value()}, std::pair{"--schedule", !o.schedule.empty()},
        std::pair{"--rounds", o.rounds.has_value()}, std::pair{"--rewind", !o.rewind.empty()},
        std::pair{"--scope", !o.scope.empty()}})
    if (are_channels && is_given)
      throw UsageError(fmt::format(
          "{}: whole channels go at once, of each layer the same share; leave it out", option));
  if (!o.scope.empty() && o.scope != "layer" && o.scope != "network")
    throw UsageError(fmt::format("--scope {}: write layer or network", o.scope));
  if (!o.schedule.empty() && o.schedule != "gradual" && o.schedule != "iterative")
    throw UsageError(fmt::format("--schedule {}: write gradual or iterative", o.schedule));
  if (!are_channels && !o.criterion.empty())
    throw UsageError("--criterion is of --pattern channels alone");
  if (!o.criterion.empty() && o.criterion != "activations" && o.criterion != "magnitude")
    throw UsageError(fmt::format("--criterion {}: write activations or magnitude", o.criterion));
  if (!o.pattern.empty() && !are_channels) {
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
  check_finetune(o, o.finetune);
  if (o.teach && o.finetune == 0)
    throw UsageError("--teach is of the fine-tuning, and --finetune 0 is none");
  return run_compression(o, "prune", {}, [&](Device device) {
    return are_channels ? ShrinkChannelsRun(o, device).run() : PruneRun(o, device).run();
  });
}

const Register prune_command(
    {"prune", "make weights zero in a pattern, train the others on, and measure both",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<PruneArguments>();
       o->add_to(args);
       args.add("--pattern", o->pattern,
                "unstructured, N:M as 2:4, vector:V with V = 4, 8, 16, 32 or 64: a column for V "
                "outputs at once, which inference is faster with; or channels: whole ones, so that "
                "the network is a smaller one (default: the recipe's, or vector:32)");
       args.add("--criterion", o->criterion,
                "of channels: activations (default; the weights that read them times their values "
                "in training samples) or magnitude (of the weights that make them)");
       args.add("--sparsity", o->sparsity,
                "zeros among the weights of pruned layers, as 0.75; of N:M it is 1 - N / M "
                "(default: the "
                "recipe's, or 0.75); of channels: the share that goes (default: 0.5)");
       args.add("--scope", o->scope,
                "of the sparsity: layer (default), each of them; or network: all of them together, "
                "so that layers that need more keep more");
       args.add("--dense", o->dense, "a layer that is left as it is, as conv1; may be given again");
       args.add("--finetune", o->finetune, "epochs of training behind it; 0: none")
           .range(int64_t{0}, int64_t{1'000'000})
           .show_default();
       args.add("--teach", o->teach,
                "how much of the fine-tuning's loss is to imitate the dense network's outputs "
                "(default: as the recipe says, else 0)")
           .range(0.0, 1.0);
       args.add("--schedule", o->schedule,
                "gradual (default), or iterative: some weights go, the network is trained for "
                "--finetune epochs with the learning rate from its beginning, and that again, "
                "--rounds times");
       args.add("--rounds", o->rounds, "of --schedule iterative (default: the recipe's, or 5)")
           .range(int64_t{1}, int64_t{100});
       args.add("--rewind", o->rewind,
                "what each round goes back to: learning-rate (default: weights go on as they are), "
                "or a file with the network's weights early in its training");
       args.add("--over", o->over, "epochs in which the sparsity rises (default: at once)")
           .range(0.0, 1e6);
       args.add("--out", o->out, "folder for model.safetensors and checkpoints");
       return [o] { return run_prune(*o); };
     }});

}  // namespace
}  // namespace brim::command
