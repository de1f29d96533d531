#include "command/shrink_search.h"

#include <brim/autograd/autograd.h>
#include <brim/compress/shrink.h>
#include <brim/train/task.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "command/format.h"
#include "command/report.h"
#include "command/say.h"
#include "command/shrink_report.h"
#include "command/shrink_state.h"
#include "core/check.h"
#include "core/clock.h"
#include "diag/cpu_energy.h"
#include "io/atomic_file.h"
#include "io/hash.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

namespace fs = std::filesystem;

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
        folder_((fs::path(o.out) / kSearchFolder).string()),
        dense_file_(file("dense.safetensors")) {
    train::make_folder(folder_);
    lock_.emplace(folder_);
  }

  int run() {
    inputs_ = calibration_inputs(arguments_.samples);
    if (is_stopped()) return stopped(kGoOn);
    BRIM_CHECK(!inputs_.empty(), ValueError, "[shrink] {} has no training samples", recipe_.data);
    timed_ = arguments_.at_batch <= inputs_[0].size(0)
                 ? inputs_[0].slice(0, 0, arguments_.at_batch).clone()
                 : random_batch(arguments_.at_batch);
    BRIM_CHECK(timed_.defined(), ValueError,
               "[shrink] --at-batch {}: for the task {} it is at most {} here", arguments_.at_batch,
               recipe_.task, inputs_[0].size(0));
    check_layer_names("--keep", arguments_.keep);
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
    state_.target = target_json();
    if (!arguments_.resume || !fs::exists(ShrinkState::path(folder_))) return;
    state_ = ShrinkState::load(folder_, state_.asked);
    if (Json target = target_json(); !differences(target, state_.target).empty()) {
      if (!quiet_) say(stdout, "another target: what was measured is kept, points are made anew\n");
      state_.target = std::move(target);
      state_.points.resize(std::min<size_t>(state_.points.size(), 1));
      state_.current.reset();
    }
    // Files that are gone or not the same any more are made again.
    for (size_t i = 0; i < state_.points.size(); ++i)
      if (!fs::is_regular_file(point_file(i)) ||
          io::hash_file(point_file(i)).hex != state_.points[i].hash)
        state_.points.resize(i);
  }

  Json target_json() const {
    const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
    Json json = {{"latency_s", or_null(target_.seconds)}, {"bytes", or_null(target_.bytes)}};
    json["accuracy"] = target_.loss_of_metric ? Json(-*target_.loss_of_metric) : Json(nullptr);
    return json;
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
    state_.points.push_back(point_of({}, found, dense_file_));
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
    if (is_stopped()) return;
    state_.check(folder_);
    if (!quiet_) say(stdout, "{}", Lines{layer_lines(state_, arguments_.at_batch)});
  }

  /// Without any training.
  ShrinkCandidates::Taken rehearse(const compress::Choice& choice) {
    const compress::LayerForms forms = compress::forms_of(state_.layers, choice);
    const train::Recipe recipe = recipe_of_forms(forms);
    begin_pruned(recipe, forms);
    const auto layers = use_forms(forms);
    const std::string path = file("rehearsal.safetensors");
    const int64_t bytes = save(path, layers, recipe);
    fs::remove(path);
    return {.seconds = forward_seconds(timed_), .bytes = bytes};
  }

  /// The choice that meets the limits as a whole, and not only by what its layers take alone; empty
  /// on a stop. Throws ValueError where none of those that are tried does.
  std::optional<compress::Choice> rehearsed() {
    ShrinkCandidates candidates(state_, target_, *path_);
    std::optional<ShrinkCandidates::Taken> nearest;
    const auto share_of = [&](const ShrinkCandidates::Taken& t) {
      return target_.share_of_limits(t.seconds, t.bytes);
    };
    while (const std::optional<compress::Choice> choice = candidates.next()) {
      const ShrinkCandidates::Taken taken = rehearse(*choice);
      if (is_stopped()) return std::nullopt;
      if (share_of(taken) <= 1) return choice;
      if (!nearest || share_of(taken) < share_of(*nearest)) nearest = taken;
      candidates.tighten(*choice, taken);
    }
    raise<ValueError>(
        "[shrink] the limits are out of reach: the nearest network that was tried takes {:.4g} ms "
        "for a batch of {}, and {}",
        1e3 * nearest->seconds, arguments_.at_batch, format_bytes(nearest->bytes));
  }

  /// Of the next point; empty: there are enough.
  std::optional<compress::Choice> next() {
    if (state_.current) return compress::choice_of(state_.layers, *state_.current);
    if (is_met_already()) return std::nullopt;
    const std::optional<double> share = path_->next_share(points_);
    if (!share) return std::nullopt;
    if (!target_.is_open() && *share == 1) return rehearsed();
    const compress::Choice choice = path_->at(*share);
    const compress::LayerForms forms = compress::forms_of(state_.layers, choice);
    for (const ShrunkPoint& point : state_.points)
      if (point.forms == forms) return std::nullopt;  // nothing lies between
    return choice;
  }

  bool is_met_already() const {
    return !target_.is_open() && target_.is_met_by(state_.points[0], state_.points[0]);
  }

  train::Recipe recipe_of_forms(const compress::LayerForms& forms) const {
    train::Recipe r = recipe_;
    r.epochs = std::max<int64_t>(1, arguments_.finetune);
    r.prune = {};
    const auto pruning = compress::pruning_of(state_.layers, forms, vector_);
    if (!pruning) return r;
    r.prune = {.pattern = arguments_.pattern,
               .sparsity = pruning->sparsity,
               .epochs = static_cast<double>(arguments_.finetune) / 2,
               .dense = pruning->dense,
               .layers = pruning->layers};
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
      say(stdout, "point {} of at most {}: {} of {} layers pruned, {} in int8\n", number, points_,
          recipe.prune.layers.size(), state_.layers.size(), in_int8);
    const std::string training = file("training");
    if (const bool trains = !recipe.prune.layers.empty() && arguments_.finetune > 0; trains) {
      if (state_.current != forms) fs::remove_all(training);
      state_.current = forms;
      state_.save(folder_);
      begin(recipe, {.weights = dense_file_, .folder = training, .resumes = true});
      (void)trainer_->train();
      display_.finish();
      if (is_stopped()) return;
    } else {
      begin_pruned(recipe, forms);
    }
    const auto layers = use_forms(forms);
    const std::optional<Evaluated> found = evaluated(fmt::format("point {}", number));
    if (is_stopped()) return;
    (void)save(point_file(number), layers, recipe);
    ShrunkPoint point = point_of(forms, found, point_file(number));
    if (is_stopped()) return;
    point.predicted_s = path_->predicted_s(choice);
    state_.points.push_back(std::move(point));
    state_.current.reset();
    state_.save(folder_);
    fs::remove_all(training);
  }

  /// At once, and not trained.
  void begin_pruned(const train::Recipe& recipe, const compress::LayerForms& forms) {
    train::Recipe r = recipe;
    r.distill = {};
    begin(r, {.weights = dense_file_});
    if (const auto pruning = compress::pruning_of(state_.layers, forms, vector_))
      (void)compress::Masks(trainer_->model(), *pruning);
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
                       const std::string& path) {
    const io::FileHash written = io::hash_file(path);
    const double seconds = forward_seconds(timed_);
    ShrunkPoint point{.forms = forms,
                      .predicted_s = seconds,
                      .seconds = seconds,
                      .joules = joules_of_forward(),
                      .bytes = static_cast<int64_t>(written.bytes),
                      .hash = written.hex,
                      .evaluation = found ? found->json : Json(nullptr),
                      .metric = 0};
    if (found && !metric_.empty()) point.metric = found->evaluation.metric(metric_);
    return point;
  }

  /// Of all packages of the machine, whatever else runs there.
  std::optional<double> joules_of_forward() {
    constexpr double kSeconds = 0.3;
    diag::CpuEnergy energy;
    if (!energy.read()) return std::nullopt;
    const NoGrad scope;
    const double before = energy.read().value_or(0), begin = steady_seconds();
    int passes = 0;
    for (; passes == 0 || (steady_seconds() - begin < kSeconds && !is_stopped()); ++passes)
      (void)trainer_->model()(timed_);
    const std::optional<double> after = energy.read();
    if (!after) return std::nullopt;
    return std::max(0.0, (*after - before) / passes);
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
    json_["layers"] = state["layers"];
    json_["points"] = state["points"];
    json_["chosen"] = chosen ? Json(*chosen) : Json(nullptr);
    const std::string path = (fs::path(arguments_.out) / train::kWeightsFile).string();
    if (chosen) io::copy_file_atomically(point_file(*chosen), path);
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
          is_met_already() ? "the network as it is meets what is asked for"
                           : "nothing better meets what is asked for than the "
                             "network as it is");
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

}  // namespace

int run_search(const ShrinkArguments& o, const ShrinkTarget& target, Device device) {
  return ShrinkRun(o, target, device).run();
}

}  // namespace brim::command
