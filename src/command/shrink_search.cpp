#include "command/shrink_search.h"

#include <brim/compress/prune.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command/format.h"
#include "command/report.h"
#include "command/say.h"
#include "command/shrink_measurements.h"
#include "command/shrink_path.h"
#include "command/shrink_report.h"
#include "core/check.h"
#include "io/atomic_file.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;

class ShrinkRun : ShrinkMeasurements {
 public:
  ShrinkRun(const ShrinkArguments& o, const ShrinkTarget& target, Device device)
      : ShrinkMeasurements(o, target, device),
        points_(o.points > 0       ? o.points
                : target.is_open() ? 5
                                   : 3) {}

  int run() {
    measure();
    if (is_stopped()) return stopped(kGoOn);
    path_.emplace(state_, target_);
    path_->check_reachable();
    while (const std::optional<PlannedNetwork> network = next()) {
      make_point(*network);
      if (is_stopped()) break;
    }
    if (is_stopped()) return stopped(kGoOn);
    return finish();
  }

 private:
  static constexpr const char* kGoOn = "to go on: the same command with --resume";

  /// Without any training.
  TakenByNetwork rehearse(const PlannedNetwork& network) {
    const compress::LayerForms forms = forms_of(network);
    const train::Recipe recipe = recipe_of_forms(network.width, forms);
    begin_pruned(recipe, network.width, forms);
    const auto layers = use_forms(forms);
    const std::string path = folder_.file("rehearsal.safetensors");
    const int64_t bytes = save(path, layers, recipe);
    fs::remove(path);
    return {.seconds = forward_seconds(timed_), .bytes = bytes};
  }

  /// The choice that meets the limits as a whole, and not only by what its layers take alone; empty
  /// on a stop. Throws ValueError where none of those that are tried does.
  std::optional<PlannedNetwork> rehearsed() {
    ShrinkCandidates candidates(state_, target_, *path_);
    while (const std::optional<PlannedNetwork> network = candidates.next()) {
      candidates.took(*network, rehearse(*network));
      if (is_stopped()) return std::nullopt;
    }
    if (candidates.found()) return candidates.found();
    raise<ValueError>(
        "[shrink] the limits are out of reach: the nearest network that was tried takes {:.4g} ms "
        "for a batch of {}, and {}",
        1e3 * candidates.nearest()->seconds, arguments_.at_batch,
        format_bytes(candidates.nearest()->bytes));
  }

  /// Of the next point; empty: there are enough.
  std::optional<PlannedNetwork> next() {
    if (state_.current) return path_->planned(state_.current_width, *state_.current);
    if (is_met_already()) return std::nullopt;
    const std::optional<double> share = path_->next_share(points_);
    if (!share) return std::nullopt;
    if (!target_.is_open() && *share == 1) return rehearsed();
    const PlannedNetwork network = path_->at(*share);
    const compress::LayerForms forms = forms_of(network);
    for (const ShrunkPoint& point : state_.points)
      if (point.width == network.width && point.forms == forms)
        return std::nullopt;  // nothing lies between
    return network;
  }

  bool is_met_already() const {
    return !target_.is_open() && target_.is_met_by(state_.points[0], state_.points[0]);
  }

  compress::LayerForms forms_of(const PlannedNetwork& network) const {
    return compress::forms_of(layers_of(network.width), network.choice);
  }

  train::Recipe recipe_of_forms(size_t width, const compress::LayerForms& forms) const {
    train::Recipe r = recipe_of_width(width);
    r.epochs = std::max<int64_t>(1, arguments_.finetune);
    const auto pruning = compress::pruning_of(layers_of(width), forms, patterns_.vector);
    if (pruning)
      r.prune = {.pattern = pattern_of_vectors(),
                 .sparsity = pruning->sparsity,
                 .epochs = static_cast<double>(arguments_.finetune) / 2,
                 .dense = pruning->dense,
                 .layers = pruning->layers};
    if ((pruning || width > 0) && arguments_.teach > 0)
      r.distill = {.teacher = folder_.dense_file(), .weight = arguments_.teach};
    return r;
  }

  void make_point(const PlannedNetwork& network) {
    const size_t width = network.width;
    const compress::LayerForms forms = forms_of(network);
    const train::Recipe recipe = recipe_of_forms(width, forms);
    const size_t number = state_.points.size();
    const auto in_int8 =
        std::ranges::count_if(forms, [](const auto& form) { return form.second.int8; });
    if (!quiet_)
      say(stdout, "point {} of at most {}: {}{} of {} layers pruned, {} in int8\n", number, points_,
          width > 0 ? fmt::format("width {}, ", width) : "", recipe.prune.layers.size(),
          layers_of(width).size(), in_int8);
    live_.document().set_point(static_cast<int64_t>(number), points_);
    const std::string training = folder_.file("training");
    if (const bool trains = (width > 0 || !recipe.prune.layers.empty()) && arguments_.finetune > 0;
        trains) {
      if (state_.current != forms || state_.current_width != width) fs::remove_all(training);
      state_.current = forms;
      state_.current_width = width;
      state_.save(folder_.path());
      begin(recipe, {.weights = folder_.width_file(width), .folder = training, .resumes = true});
      (void)train(fmt::format("point-{}", number));
      if (is_stopped()) return;
    } else {
      begin_pruned(recipe, width, forms);
    }
    const auto layers = use_forms(forms);
    const std::optional<Evaluated> found = evaluated(fmt::format("point {}", number));
    if (is_stopped()) return;
    (void)save(folder_.point_file(number), layers, recipe);
    ShrunkPoint point = point_of(width, forms, found, folder_.point_file(number));
    if (is_stopped()) return;
    point.predicted_s = network.seconds;
    const RunCounts counts = live_.document().counts();
    state_.steps = counts.steps_before + counts.status.step;
    state_.points.push_back(std::move(point));
    state_.current.reset();
    state_.save(folder_.path());
    fs::remove_all(training);
  }

  /// At once, and not trained.
  void begin_pruned(const train::Recipe& recipe, size_t width, const compress::LayerForms& forms) {
    train::Recipe r = recipe;
    r.distill = {};
    begin(r, {.weights = folder_.width_file(width)});
    if (const auto pruning = compress::pruning_of(layers_of(width), forms, patterns_.vector))
      (void)compress::Masks(trainer_->model(), *pruning);
  }

  std::vector<compress::QuantizedLayer> use_forms(const compress::LayerForms& forms) {
    return compress::use_forms(trainer_->model(), forms, patterns_.vector, [this] {
      for (const Tensor& x : inputs_) (void)trainer_->model()(x);
    });
  }

  /// Writes the network, which computes in these forms. Returns how long the file is.
  int64_t save(const std::string& path, const std::vector<compress::QuantizedLayer>& layers,
               const train::Recipe& recipe) {
    train::save_compressed_weights(path, trainer_->model(), compress::int8_layers(layers),
                                   patterns_.vector, weights_info(recipe));
    return static_cast<int64_t>(fs::file_size(path));
  }

  int finish() {
    const ShrunkPoint& dense = state_.points[0];
    std::optional<size_t> chosen;
    for (size_t i = 0; i < state_.points.size(); ++i) {
      const ShrunkPoint& point = state_.points[i];
      if (!target_.is_met_by(point, dense)) continue;
      if (!chosen || is_better(point, state_.points[*chosen])) chosen = i;
    }
    if (!quiet_)
      say(stdout, "{}", Lines{frontier_lines(state_, metric_, arguments_.at_batch, chosen)});
    json_["target"] = target_json();
    json_["metric"] = metric_.empty() ? Json(nullptr) : Json(metric_);
    const Json state = state_.to_json();
    json_["layers"] = state["widths"][0]["layers"];
    json_["groups"] = state["groups"];
    json_["widths"] = state["widths"];
    json_["points"] = state["points"];
    json_["chosen"] = chosen ? Json(*chosen) : Json(nullptr);
    const std::string path = (fs::path(arguments_.out) / train::kWeightsFile).string();
    if (chosen) io::copy_file_atomically(folder_.point_file(*chosen), path);
    if (!metric_.empty() && !arguments_.svg.empty())
      io::write_file_atomically(arguments_.svg,
                                frontier_drawing(state_, metric_, arguments_.at_batch, chosen));
    write();
    if (!chosen) {
      say(stderr, "brim: {}{}\n", nearest(),
          fs::exists(path) ? "; " + path + " is of an earlier search" : "");
      return 1;
    }
    if (quiet_) return 0;
    if (*chosen == 0)
      say(stdout, "{}\n",
          is_met_already()
              ? "the network as it is meets what is asked for"
              : "of the points made none meets what is asked for but the network as it is; "
                "--resume with more --points tries others");
    say(stdout, "weights in {}, {}\n", path, format_bytes(state_.points[*chosen].bytes));
    return 0;
  }

  /// Of two that meet the target: with limits the more accurate one, else the smaller one.
  bool is_better(const ShrunkPoint& a, const ShrunkPoint& b) const {
    const auto cost = [this](const ShrunkPoint& p) { return path_->cost(p.seconds, p.bytes); };
    if (target_.is_open() || a.metric == b.metric) return cost(a) < cost(b);
    return a.metric > b.metric;
  }

  std::string nearest() const {
    const ShrunkPoint& dense = state_.points[0];
    const ShrunkPoint& point = state_.points.size() > 1 ? state_.points[1] : dense;
    ShrinkTarget limits = target_;
    limits.loss_of_metric.reset();
    return fmt::format(
        "no point meets what was asked for; the nearest takes {:.4g} ms and {}, with {:+.2f} "
        "points{}",
        1e3 * point.seconds, format_bytes(point.bytes), 100 * (point.metric - dense.metric),
        limits.is_met_by(point, dense) ? ": more --finetune may close that" : "");
  }

  const int64_t points_;
  std::optional<ShrinkPath> path_;  // of what is measured
};

}  // namespace

int run_search(const ShrinkArguments& o, const ShrinkTarget& target, Device device) {
  return ShrinkRun(o, target, device).run();
}

}  // namespace brim::command
