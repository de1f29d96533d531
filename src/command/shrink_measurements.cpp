#include "command/shrink_measurements.h"

#include <brim/autograd/autograd.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "command/format.h"
#include "command/report.h"
#include "command/say.h"
#include "command/shrink_report.h"
#include "core/check.h"
#include "core/clock.h"
#include "diag/cpu_energy.h"
#include "io/hash.h"
#include "train/recipe_model.h"

namespace brim::command {
namespace {

/// The first one that is a fraction and better when higher; "": there is none.
std::string metric_of(const train::Evaluation& e) {
  for (const auto& value : e.metrics)
    if (value.is_fraction && value.higher_is_better) return value.name;
  return "";
}

/// Of a network's outputs from the dense one's.
std::function<double(const Tensor&, const Tensor&)> distance_of(const train::Task& task) {
  return [&task](const Tensor& output, const Tensor& dense) {
    return task.imitation_loss(output, dense, 1).item();
  };
}

/// Thirds of the way from the dense network to the narrowest one.
std::vector<compress::LayerForms> widths_to_make(const std::vector<compress::LayerCosts>& costs) {
  std::vector<compress::LayerForms> all;
  if (costs.empty()) return all;
  const double of_seconds = 1 / costs[0].forms[0].seconds;
  const double of_bytes = 1 / static_cast<double>(costs[0].forms[0].bytes);
  const auto frontier = compress::form_frontier(costs, of_seconds, of_bytes);
  const auto cost_of = [=](const compress::Choice& c) {
    return of_seconds * c.seconds + of_bytes * static_cast<double>(c.bytes);
  };
  const double first = cost_of(frontier.front()), last = cost_of(frontier.back());
  for (const double share : {1.0 / 3, 2.0 / 3, 1.0}) {
    const double wanted = first + share * (last - first) + 1e-9;
    const auto found = std::ranges::find_if(
        frontier, [&](const compress::Choice& c) { return cost_of(c) <= wanted; });
    const auto groups =
        compress::forms_of(costs, found == frontier.end() ? frontier.back() : *found);
    if (!groups.empty() && (all.empty() || all.back() != groups)) all.push_back(groups);
  }
  return all;
}

}  // namespace

ShrinkMeasurements::ShrinkMeasurements(const ShrinkArguments& o, const ShrinkTarget& target,
                                       Device device)
    : CompressionRun(o, "shrink", device, recipe_of(o, "shrink"), ""),
      arguments_(o),
      target_(target),
      patterns_(ShrinkPatterns::parse(o.patterns)),
      folder_(o.out) {}

void ShrinkMeasurements::measure() {
  inputs_ = calibration_inputs(arguments_.samples);
  if (is_stopped()) return;
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
  if (!is_stopped()) measure_widths();
}

void ShrinkMeasurements::load_state() {
  Json patterns = Json::array();
  if (patterns_.channels) patterns.push_back("channels");
  if (patterns_.prunes_vectors) patterns.push_back(pattern_of_vectors());
  const Json asked = {{"weights", io::hash_file(arguments_.weights).hex},
                      {"recipe", recipe_.learned_toml()},
                      {"device", device_.str()},
                      {"pattern", patterns},
                      {"at_batch", arguments_.at_batch},
                      {"samples", arguments_.samples},
                      {"finetune", arguments_.finetune},
                      {"teach", arguments_.teach},
                      {"keep", arguments_.keep}};
  std::optional<ShrinkState> found;
  if (arguments_.resume) found = folder_.load(asked);
  if (found) {
    state_ = *std::move(found);
    live_.document().set_earlier_steps(state_.steps);
    if (differences(target_json(), state_.target).empty()) return;
    if (!quiet_) say(stdout, "another target: what was measured is kept, points are made anew\n");
    state_.drop_points();
  }
  state_.asked = asked;
  state_.target = target_json();
}

CompressionRun::Json ShrinkMeasurements::target_json() const {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json json = {{"latency_s", or_null(target_.seconds)}, {"bytes", or_null(target_.bytes)}};
  json["accuracy"] = target_.loss_of_metric ? Json(-*target_.loss_of_metric) : Json(nullptr);
  return json;
}

std::string ShrinkMeasurements::pattern_of_vectors() const {
  return fmt::format("vector:{}", patterns_.vector);
}

/// Also for what goes on: evaluations are compared sample by sample with it.
void ShrinkMeasurements::measure_dense() {
  const std::optional<Evaluated> found = evaluated("dense");
  if (is_stopped()) return;
  BRIM_CHECK(found || !target_.loss_of_metric, ValueError,
             "[shrink] {} has no test split, so --accuracy cannot be seen", recipe_.data);
  if (found) metric_ = metric_of(found->evaluation);
  BRIM_CHECK(!metric_.empty() || !target_.loss_of_metric, ValueError,
             "[shrink] none of the metrics of {} is a fraction, which --accuracy is of points of",
             recipe_.name);
  if (!state_.points.empty()) return;
  train::save_weights(folder_.dense_file(), trainer_->model(), weights_info(recipe_));
  state_.points.push_back(point_of(0, {}, found, folder_.dense_file()));
  state_.save(folder_.path());
}

train::WeightsInfo ShrinkMeasurements::weights_info(const train::Recipe& recipe) const {
  train::WeightsInfo info = train::read_weights_info(train::WeightsFile(arguments_.weights));
  if (info.classes.empty()) info.classes = trainer_->data().names;
  info.recipe = recipe;
  info.recipe->distill = {};  // its file is the search's
  return info;
}

/// The dense network, and what is left of it without channels; the layers of all of them.
void ShrinkMeasurements::measure_widths() {
  if (state_.widths.empty()) {
    const ShrunkPoint& dense = state_.points[0];
    state_.widths.push_back({.groups = {},
                             .channels = recipe_.channels,
                             .seconds = dense.seconds,
                             .distance = 0,
                             .bytes = dense.bytes,
                             .hash = dense.hash,
                             .layers = {}});
  }
  measure_layers(state_.widths[0], {});
  if (patterns_.channels && !is_stopped()) make_widths();
  for (size_t i = 1; i < state_.widths.size() && !is_stopped(); ++i) {
    begin(recipe_of_width(i), {.weights = folder_.width_file(i)});
    measure_layers(state_.widths[i], state_.widths[0].layers);
  }
  if (is_stopped()) return;
  state_.check(folder_.path());
  if (!quiet_)
    say(stdout, "{}",
        Lines{layer_lines(state_, arguments_.at_batch) + width_lines(state_, arguments_.at_batch)});
}

/// Groups of channels, and networks without what that tells to be the least; each of them a file.
void ShrinkMeasurements::make_widths() {
  constexpr double kMeasuredFor = 0.1;  // seconds for each
  const auto task = train::make_task(recipe_);
  std::optional<compress::ChannelMeter> meter;
  const auto make_meter = [&] {
    begin(recipe_, {.weights = folder_.dense_file()});
    show("find channels", 0);
    meter.emplace(trainer_->model(),
                  compress::ChannelMeterOptions{
                      .inputs = inputs_,
                      .distance = distance_of(*task),
                      .pass_seconds = [this] { return forward_seconds(timed_, kMeasuredFor); },
                      .keep = arguments_.keep});
  };
  if (state_.widths.size() > 1) return;
  make_meter();
  for (size_t i = 0; i < state_.groups.size(); ++i)
    BRIM_CHECK(i < meter->groups() && state_.groups[i].name == meter->name(i), FileError,
               "[shrink] {} has measured channels of '{}', which are not the network's; begin "
               "anew with --overwrite",
               ShrinkState::path(folder_.path()), state_.groups[i].name);
  while (state_.groups.size() < meter->groups() && !is_stopped()) {
    show("measure channels",
         static_cast<double>(state_.groups.size()) / static_cast<double>(meter->groups()));
    compress::LayerCosts costs = meter->measure(state_.groups.size());
    if (is_stopped()) return;
    state_.groups.push_back(std::move(costs));
    state_.save(folder_.path());
  }
  done();
  std::vector<ShrunkWidth> widths;
  for (const compress::LayerForms& groups : widths_to_make(state_.groups)) {
    if (is_stopped()) return;
    make_meter();
    ShrunkWidth width{.groups = groups, .distance = meter->distance(groups)};
    try {
      width.channels = train::with_channels(recipe_.channels, meter->shrink(groups).channels);
    } catch (const ValueError& e) {
      say(stderr, "brim: warning: {}\n", e.what());
      continue;
    }
    train::Recipe recipe = recipe_;
    recipe.channels = width.channels;
    const std::string path = folder_.width_file(state_.widths.size() + widths.size());
    train::save_weights(path, trainer_->model(), weights_info(recipe));
    const io::FileHash written = io::hash_file(path);
    width.hash = written.hex;
    width.bytes = static_cast<int64_t>(written.bytes);
    width.seconds = forward_seconds(timed_);
    widths.push_back(std::move(width));
  }
  if (is_stopped()) return;
  for (ShrunkWidth& width : widths) state_.widths.push_back(std::move(width));
  state_.save(folder_.path());
}

train::Recipe ShrinkMeasurements::recipe_of_width(size_t width) const {
  train::Recipe r = recipe_;
  r.channels = state_.widths[width].channels;
  r.prune = {};
  return r;
}

void ShrinkMeasurements::measure_layers(ShrunkWidth& width,
                                        const std::vector<compress::LayerCosts>& known) {
  const auto task = train::make_task(recipe_);
  show("calibrate", 0);
  compress::FormOptions options{.inputs = inputs_,
                                .timed = timed_,
                                .distance = distance_of(*task),
                                .vector = patterns_.vector,
                                .keep = arguments_.keep,
                                .known = known};
  if (!patterns_.prunes_vectors) options.sparsities.clear();
  compress::FormMeter meter(trainer_->model(), std::move(options));
  for (size_t i = 0; i < width.layers.size(); ++i)
    BRIM_CHECK(i < meter.layers() && width.layers[i].name == meter.name(i), FileError,
               "[shrink] {} has measured '{}', which is not the network's layer {}; it is damaged",
               ShrinkState::path(folder_.path()), width.layers[i].name, i + 1);
  while (width.layers.size() < meter.layers() && !is_stopped()) {
    show("measure layers",
         static_cast<double>(width.layers.size()) / static_cast<double>(meter.layers()));
    width.layers.push_back(meter.measure(width.layers.size()));
    state_.save(folder_.path());
  }
  done();
  if (width.fastest_s == 0 && !is_stopped()) measure_fastest(width);
}

void ShrinkMeasurements::measure_fastest(ShrunkWidth& width) {
  double seconds = width.seconds;
  if (const compress::LayerForms forms = width.fastest_forms(); !forms.empty()) {
    (void)compress::use_forms(trainer_->model(), forms, patterns_.vector, [this] {
      for (const Tensor& x : inputs_) (void)trainer_->model()(x);
    });
    seconds = forward_seconds(timed_);
    compress::use_dense(trainer_->model());
  }
  if (is_stopped()) return;
  width.fastest_s = seconds;
  state_.save(folder_.path());
}

ShrunkPoint ShrinkMeasurements::point_of(size_t width, const compress::LayerForms& forms,
                                         const std::optional<Evaluated>& found,
                                         const std::string& path) {
  const io::FileHash written = io::hash_file(path);
  const double seconds = forward_seconds(timed_);
  ShrunkPoint point{.width = width,
                    .forms = forms,
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
std::optional<double> ShrinkMeasurements::joules_of_forward() {
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

}  // namespace brim::command
