// `brim shrink --weights F --latency 3ms`: gives each layer the form that costs least for what it
// takes off the accuracy, trains what was pruned on, and keeps the best network within the limits.
#include <brim/autograd/autograd.h>
#include <brim/compress/shrink.h>
#include <brim/train/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "command/compression_run.h"
#include "command/format.h"
#include "command/frontier_svg.h"
#include "command/report.h"
#include "command/say.h"
#include "command/shrink_path.h"
#include "command/shrink_state.h"
#include "core/check.h"
#include "diag/cpu_energy.h"
#include "io/atomic_file.h"
#include "io/hash.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;

struct ShrinkArguments : CompressionArguments {
  std::string latency, size, pattern = "vector:8", svg;
  std::optional<double> accuracy;
  std::vector<std::string> keep;
  int64_t at_batch = 1, finetune = 5, points = 0, samples = 256;
  double teach = 0.5;
  bool resume = false, overwrite = false;
};

class ShrinkRun : CompressionRun {
 public:
  ShrinkRun(const ShrinkArguments& o, const ShrinkTarget& target, Device device)
      : CompressionRun(o, "shrink", device, recipe_of(o, "shrink"), ""),
        arguments_(o),
        target_(target),
        vector_(compress::parse_pattern(o.pattern).length),
        points_(o.points > 0       ? o.points
                : target.is_open() ? 5
                                   : 3),
        folder_(o.out),
        dense_file_(file("dense.safetensors")) {
    train::make_folder(folder_);
    lock_.emplace(folder_);
  }

  int run() {
    timed_ = random_batch(arguments_.at_batch);
    BRIM_CHECK(timed_.defined(), ValueError,
               "[shrink] the task {} is not timed; classification is, of inputs of one shape",
               recipe_.task);
    inputs_ = calibration_inputs(arguments_.samples);
    BRIM_CHECK(!inputs_.empty(), ValueError, "[shrink] {} has no training samples", recipe_.data);
    load_state();
    measure_dense();
    if (!is_stopped()) measure_layers();
    if (is_stopped()) return stopped(kGoOn);
    path_.emplace(state_, target_);
    path_->check_reachable();
    while (const std::optional<compress::Choice> choice = next()) {
      make_point(*choice);
      if (is_stopped()) break;
    }
    if (is_stopped()) return stopped(kGoOn);
    return finish();
  }

 private:
  static constexpr const char* kGoOn = "to go on: the same command with --resume";

  std::string file(const std::string& name) const { return (fs::path(folder_) / name).string(); }
  std::string point_file(size_t point) const {
    return point == 0 ? dense_file_ : file(fmt::format("point-{}.safetensors", point));
  }

  void load_state() {
    state_.asked = {{"weights", io::hash_file(arguments_.weights).hex},
                    {"recipe", recipe_.learned_toml()},
                    {"device", device_.str()},
                    {"pattern", arguments_.pattern},
                    {"at_batch", arguments_.at_batch},
                    {"samples", arguments_.samples},
                    {"finetune", arguments_.finetune},
                    {"teach", arguments_.teach},
                    {"keep", arguments_.keep}};
    if (arguments_.resume && fs::exists(ShrinkState::path(folder_)))
      state_ = ShrinkState::load(folder_, state_.asked);
  }

  /// Also for what goes on: evaluations are compared sample by sample with it.
  void measure_dense() {
    const std::optional<Evaluated> found = evaluated("dense");
    if (is_stopped()) return;
    BRIM_CHECK(found || !target_.loss_of_metric, ValueError,
               "[shrink] {} has no test split, so --accuracy cannot be seen", recipe_.data);
    if (found) metric_ = metric_of(found->evaluation);
    BRIM_CHECK(!metric_.empty() || !target_.loss_of_metric, ValueError,
               "[shrink] none of the metrics of {} is a fraction, which --accuracy is of points of",
               recipe_.name);
    if (!state_.points.empty()) return;
    train::save_weights(dense_file_, trainer_->model(), weights_info(recipe_));
    state_.points.push_back(point_of({}, found, static_cast<int64_t>(fs::file_size(dense_file_))));
    state_.save(folder_);
  }

  /// The first one that is a fraction and better when higher; "": there is none.
  static std::string metric_of(const train::Evaluation& e) {
    for (const auto& value : e.metrics)
      if (value.is_fraction && value.higher_is_better) return value.name;
    return "";
  }

  train::WeightsInfo weights_info(const train::Recipe& recipe) const {
    train::WeightsInfo info = train::read_weights_info(train::WeightsFile(arguments_.weights));
    if (info.classes.empty()) info.classes = trainer_->data().names;
    info.recipe = recipe;
    info.recipe->distill = {};  // its file is the search's
    return info;
  }

  void measure_layers() {
    const auto task = train::make_task(recipe_);
    display_.show("calibrate", 0);
    compress::FormMeter meter(trainer_->model(),
                              {.inputs = inputs_,
                               .timed = timed_,
                               .distance =
                                   [&](const Tensor& output, const Tensor& dense) {
                                     return task->imitation_loss(output, dense, 1).item();
                                   },
                               .vector = vector_,
                               .keep = arguments_.keep});
    for (size_t i = 0; i < state_.layers.size(); ++i)
      BRIM_CHECK(
          i < meter.layers() && state_.layers[i].name == meter.name(i), FileError,
          "[shrink] {} has measured '{}', which is not the network's layer {}; it is damaged",
          ShrinkState::path(folder_), state_.layers[i].name, i + 1);
    while (state_.layers.size() < meter.layers() && !is_stopped()) {
      display_.show("measure layers", static_cast<double>(state_.layers.size()) /
                                          static_cast<double>(meter.layers()));
      state_.layers.push_back(meter.measure(state_.layers.size()));
      state_.save(folder_);
    }
    display_.finish();
    if (!is_stopped()) tell_layers();
  }

  void tell_layers() const {
    if (quiet_) return;
    say(stdout, "layers, in us for {} {}: dense, and in other forms (what outputs lose)\n",
        arguments_.at_batch, arguments_.at_batch == 1 ? "sample" : "samples");
    for (const compress::LayerCosts& layer : state_.layers) {
      std::string line = layer.why.empty() ? "" : "dense: " + layer.why;
      for (size_t i = 1; i < layer.forms.size(); ++i)
        line +=
            fmt::format("{}{} {:.1f} ({:.2g})", line.empty() ? "" : "; ", layer.forms[i].form.str(),
                        1e6 * layer.forms[i].seconds, layer.forms[i].distance);
      say(stdout, "  {:<28} {:<18} {:>8.1f}  {}\n", layer.name, layer.shape.str(),
          1e6 * layer.forms[0].seconds, line);
    }
  }

  /// The choice that meets the limits as a whole, and not only by what its layers are measured to
  /// take: it is tried before it is trained.
  std::optional<compress::Choice> rehearsed() {
    constexpr int kAttempts = 6;
    compress::Limits these = path_->limits();
    double seconds = 0;
    int64_t bytes = 0;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::optional<compress::Choice> choice;
      try {
        choice = compress::choose_forms(state_.layers, these);
      } catch (const ValueError&) {
        break;  // no room is left to be tightened
      }
      const compress::LayerForms forms = compress::forms_of(state_.layers, *choice);
      const train::Recipe recipe = recipe_of_forms(forms);
      begin_pruned(recipe);
      const auto layers = use_forms(forms);
      const std::string path = file("rehearsal.safetensors");
      bytes = save(path, layers, recipe);
      fs::remove(path);
      seconds = forward_seconds(timed_);
      if (is_stopped()) return std::nullopt;
      const double late = seconds - target_.seconds.value_or(seconds);
      const int64_t large = bytes - target_.bytes.value_or(bytes);
      if (late <= 0 && large <= 0) return choice;
      if (late > 0)
        these.seconds =
            choice->seconds -
            1.2 * (choice->seconds - path_->of_layers(path_->predicted_s(*choice) - late));
      if (large > 0) these.bytes = choice->bytes - large;
    }
    raise<ValueError>(
        "[shrink] the limits are out of reach: the nearest network that was tried takes {:.4g} ms "
        "for a batch of {}, and {}",
        1e3 * seconds, arguments_.at_batch, format_bytes(bytes));
  }

  /// Of the next point; empty: there are enough.
  std::optional<compress::Choice> next() {
    const std::optional<double> share = path_->next_share(points_);
    if (!share) return std::nullopt;
    if (!target_.is_open() && *share == 1) return rehearsed();
    const compress::Choice choice = path_->at(*share);
    const compress::LayerForms forms = compress::forms_of(state_.layers, choice);
    for (const ShrunkPoint& point : state_.points)
      if (point.forms == forms) return std::nullopt;  // nothing lies between
    return choice;
  }

  train::Recipe recipe_of_forms(const compress::LayerForms& forms) const {
    train::Recipe r = recipe_;
    r.epochs = std::max<int64_t>(1, arguments_.finetune);
    r.prune = {};
    for (const compress::LayerCosts& layer : state_.layers) {
      const auto form = forms.find(layer.name);
      if (form != forms.end() && form->second.sparsity > 0)
        r.prune.layers[layer.name] = form->second.sparsity;
      else
        r.prune.dense.push_back(layer.name);
    }
    if (r.prune.layers.empty()) {
      r.prune = {};
      return r;
    }
    r.prune.pattern = arguments_.pattern;
    for (const auto& [name, sparsity] : r.prune.layers)
      r.prune.sparsity = std::max(r.prune.sparsity, sparsity);
    r.prune.epochs = static_cast<double>(arguments_.finetune) / 2;
    if (arguments_.teach > 0) r.distill = {.teacher = dense_file_, .weight = arguments_.teach};
    return r;
  }

  void make_point(const compress::Choice& choice) {
    const compress::LayerForms forms = compress::forms_of(state_.layers, choice);
    const train::Recipe recipe = recipe_of_forms(forms);
    const size_t number = state_.points.size();
    const auto in_int8 =
        std::ranges::count_if(forms, [](const auto& form) { return form.second.int8; });
    if (!quiet_)
      say(stdout, "point {} of at most {}: {} of {} layers without columns of zeros, {} in int8\n",
          number, points_, recipe.prune.layers.size(), state_.layers.size(), in_int8);
    const std::string training = file("shrink-training");
    if (const bool trains = !recipe.prune.layers.empty() && arguments_.finetune > 0; trains) {
      if (state_.current != forms) fs::remove_all(training);
      state_.current = forms;
      state_.save(folder_);
      begin(recipe, {.weights = dense_file_, .folder = training, .resumes = true});
      (void)trainer_->train();
      display_.finish();
      if (is_stopped()) return;
    } else {
      begin_pruned(recipe);
    }
    const auto layers = use_forms(forms);
    const std::optional<Evaluated> found = evaluated(fmt::format("point {}", number));
    if (is_stopped()) return;
    ShrunkPoint point = point_of(forms, found, save(point_file(number), layers, recipe));
    point.predicted_s = path_->predicted_s(choice);
    state_.points.push_back(std::move(point));
    state_.current.reset();
    state_.save(folder_);
    fs::remove_all(training);
  }

  /// At once, and not trained.
  void begin_pruned(const train::Recipe& recipe) {
    train::Recipe r = recipe;
    r.distill = {};
    begin(r, {.weights = dense_file_});
    if (!recipe.prune.layers.empty())
      (void)compress::Masks(trainer_->model(),
                            {.pattern = compress::parse_pattern(recipe.prune.pattern),
                             .sparsity = recipe.prune.sparsity,
                             .dense = recipe.prune.dense,
                             .layers = recipe.prune.layers});
  }

  std::vector<compress::QuantizedLayer> use_forms(const compress::LayerForms& forms) {
    return compress::use_forms(trainer_->model(), forms, vector_, [this] {
      for (const Tensor& x : inputs_) (void)trainer_->model()(x);
    });
  }

  /// Writes the network, which computes in these forms. Returns how long the file is.
  int64_t save(const std::string& path, const std::vector<compress::QuantizedLayer>& layers,
               const train::Recipe& recipe) {
    train::save_compressed_weights(path, trainer_->model(), compress::int8_layers(layers), vector_,
                                   weights_info(recipe));
    return static_cast<int64_t>(fs::file_size(path));
  }

  ShrunkPoint point_of(const compress::LayerForms& forms, const std::optional<Evaluated>& found,
                       int64_t bytes) {
    const double seconds = forward_seconds(timed_);
    ShrunkPoint point{.forms = forms,
                      .predicted_s = seconds,
                      .seconds = seconds,
                      .joules = joules_of_forward(),
                      .bytes = bytes,
                      .evaluation = found ? found->json : Json(nullptr),
                      .metric = 0};
    if (found && !metric_.empty()) point.metric = found->evaluation.metric(metric_);
    return point;
  }

  /// Of all packages of the machine, whatever else runs there.
  std::optional<double> joules_of_forward() {
    constexpr int kPasses = 200;
    diag::CpuEnergy energy;
    if (!energy.read()) return std::nullopt;
    const NoGrad scope;
    const double before = energy.read().value_or(0);
    for (int i = 0; i < kPasses; ++i) (void)trainer_->model()(timed_);
    const std::optional<double> after = energy.read();
    if (!after) return std::nullopt;
    return (*after - before) / kPasses;
  }

  int finish() {
    const ShrunkPoint& dense = state_.points[0];
    std::optional<size_t> chosen;
    for (size_t i = 0; i < state_.points.size(); ++i) {
      const ShrunkPoint& point = state_.points[i];
      if (!target_.is_met_by(point, dense)) continue;
      if (!chosen || is_better(point, state_.points[*chosen])) chosen = i;
    }
    tell_frontier(chosen);
    json_["target"] = {
        {"latency_s", target_.seconds ? Json(*target_.seconds) : Json(nullptr)},
        {"bytes", target_.bytes ? Json(*target_.bytes) : Json(nullptr)},
        {"accuracy", target_.loss_of_metric ? Json(-*target_.loss_of_metric) : Json(nullptr)}};
    json_["metric"] = metric_.empty() ? Json(nullptr) : Json(metric_);
    const Json state = state_.to_json();
    json_["layers"] = state["layers"];
    json_["points"] = state["points"];
    json_["chosen"] = chosen ? Json(*chosen) : Json(nullptr);
    draw(chosen);
    if (chosen && *chosen > 0) {
      const std::string path = file("model.safetensors");
      copy(point_file(*chosen), path);
      if (!quiet_)
        say(stdout, "weights in {}, {}\n", path, format_bytes(state_.points[*chosen].bytes));
    }
    write();
    if (chosen && *chosen > 0) return 0;
    say(stderr, "brim: {}\n", chosen ? "nothing smaller meets what was asked for" : nearest());
    return 1;
  }

  /// Of two that meet the target: with limits the more accurate one, else the smaller one.
  bool is_better(const ShrunkPoint& a, const ShrunkPoint& b) const {
    const auto cost = [this](const ShrunkPoint& p) { return path_->cost(p.seconds, p.bytes); };
    if (target_.is_open() || a.metric == b.metric) return cost(a) < cost(b);
    return a.metric > b.metric;
  }

  std::string nearest() const {
    const ShrunkPoint& point = state_.points.size() > 1 ? state_.points[1] : state_.points[0];
    return fmt::format(
        "no point meets what was asked for; the nearest takes {:.3f} ms and {}, with {:+.2f} "
        "points: more --finetune may close that",
        1e3 * point.seconds, format_bytes(point.bytes),
        100 * (point.metric - state_.points[0].metric));
  }

  void tell_frontier(std::optional<size_t> chosen) const {
    if (quiet_) return;
    const ShrunkPoint& dense = state_.points[0];
    const bool has_energy =
        std::ranges::all_of(state_.points, &std::optional<double>::has_value, &ShrunkPoint::joules);
    say(stdout, "{:<9} {:>10} {:>7} {:>11} {:>8} {}{:>9}\n", "point",
        fmt::format("ms for {}", arguments_.at_batch), "faster", "file", "smaller",
        has_energy ? fmt::format("{:>9} ", "mJ") : "", metric_.empty() ? "" : metric_);
    for (size_t i = 0; i < state_.points.size(); ++i) {
      const ShrunkPoint& point = state_.points[i];
      std::string metric;
      if (!metric_.empty()) metric = fmt::format("{:>7.2f} %", 100 * point.metric);
      if (!metric_.empty() && i > 0)
        metric += fmt::format(" ({:+.2f})", 100 * (point.metric - dense.metric));
      say(stdout, "{:<9} {:>10.3f} {:>5.2f} x {:>11} {:>6.2f} x {}{}{}\n",
          i == 0 ? "dense" : fmt::format("{}", i), 1e3 * point.seconds,
          dense.seconds / point.seconds, format_bytes(point.bytes),
          static_cast<double>(dense.bytes) / static_cast<double>(point.bytes),
          has_energy ? fmt::format("{:>9.3f} ", 1e3 * point.joules.value_or(0)) : "", metric,
          chosen == i ? "  <- chosen" : "");
    }
  }

  void draw(std::optional<size_t> chosen) const {
    if (metric_.empty() || !arguments_.svg.size()) return;
    std::vector<FrontierDot> dots;
    for (size_t i = 0; i < state_.points.size(); ++i) {
      const ShrunkPoint& point = state_.points[i];
      dots.push_back({.milliseconds = 1e3 * point.seconds,
                      .percent = 100 * point.metric,
                      .bytes = static_cast<double>(point.bytes),
                      .label = fmt::format("{}, {}", i == 0 ? "dense" : fmt::format("point {}", i),
                                           format_bytes(point.bytes)),
                      .is_chosen = chosen == i});
    }
    io::write_file_atomically(arguments_.svg, frontier_svg(dots, metric_, arguments_.at_batch));
  }

  static void copy(const std::string& from, const std::string& to) {
    const std::string beside = to + ".new";
    fs::copy_file(from, beside, fs::copy_options::overwrite_existing);
    fs::rename(beside, to);
  }

  const ShrinkArguments& arguments_;
  const ShrinkTarget target_;
  const int64_t vector_, points_;
  const std::string folder_, dense_file_;
  std::optional<train::FolderLock> lock_;
  std::string metric_;  // that --accuracy is of; "": there is none
  std::vector<Tensor> inputs_;
  Tensor timed_;
  ShrinkState state_;
  std::optional<ShrinkPath> path_;  // of what is measured
};

int run_shrink(const ShrinkArguments& o) {
  const ShrinkTarget target = ShrinkTarget::parse(o.latency, o.size, o.accuracy);
  if (compress::parse_pattern(o.pattern).kind != compress::Pattern::Kind::vector)
    throw UsageError(
        fmt::format("--pattern {}: only vectors are faster; write vector:8", o.pattern));
  if (o.resume && o.overwrite) throw UsageError("--resume goes on, --overwrite begins anew");
  std::error_code error;
  if (!o.resume && !o.overwrite)
    for (const std::string& path : {ShrinkState::path(o.out), o.out + "/model.safetensors"})
      if (exists(fs::symlink_status(path, error)))
        throw UsageError(fmt::format(
            "--out: {} exists; give --resume to go on, or --overwrite to begin anew", path));
  return run_compression(o, "shrink",
                         [&](Device device) { return ShrinkRun(o, target, device).run(); });
}

const Register shrink_command(
    {"shrink",
     "search which layers are pruned or in 8-bit integers, for a time, a size or an accuracy",
     [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<ShrinkArguments>();
       o->add_to(args);
       args.add("--latency", o->latency, "that a batch may take at most, as 3ms or 250us");
       args.add("--size", o->size, "that the file may have at most, as 500k");
       args.add("--accuracy", o->accuracy,
                "points that the accuracy may lose, as -0.5; alone: as small as that allows")
           .range(-100.0, 100.0);
       args.add("--at-batch", o->at_batch, "samples of the batch that is timed")
           .range(int64_t{1}, int64_t{4096})
           .show_default();
       args.add("--pattern", o->pattern, "vectors that are pruned, as `brim prune` has them")
           .show_default();
       args.add("--keep", o->keep, "a layer that stays as it is, as conv1; may be given again");
       args.add("--finetune", o->finetune, "epochs of training of each point; 0: none")
           .range(int64_t{0}, int64_t{1'000'000})
           .show_default();
       args.add("--teach", o->teach,
                "how much of the training's loss is to imitate the dense network's outputs")
           .range(0.0, 1.0)
           .show_default();
       args.add(
               "--points", o->points,
               "networks that are made at most (default: 5 where only --accuracy is given, else 3)")
           .range(int64_t{1}, int64_t{100});
       args.add("--samples", o->samples, "of the training split that layers are measured with")
           .range(int64_t{1}, int64_t{1'000'000})
           .show_default();
       args.add("--out", o->out, "folder for model.safetensors and all that is measured")
           .required();
       args.add("--svg", o->svg, "draw accuracy against time").file();
       args.flag("--resume", o->resume, "go on with the search in --out");
       args.flag("--overwrite", o->overwrite, "begin anew where --out has a search");
       return [o] { return run_shrink(*o); };
     }});

}  // namespace
}  // namespace brim::command
