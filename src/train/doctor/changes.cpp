#include "train/doctor/changes.h"

#include <brim/core/threads.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace brim::train {
namespace {

using diag::Cause;
using Changes = std::vector<Change<TrainSetting>>;

/// A plan without the passes that round otherwise: the bits are those of eager steps.
void compile_exactly(const TrainSetting& now, const ShortRun&, Changes& changes) {
  if (now.options.compile) return;
  TrainSetting after = now;
  after.options.compile = true;
  after.options.passes = "exact";
  changes.push_back(
      {"compiled steps (exact passes)", "--compile on --passes exact", after, launch_causes()});
}

/// Sums in another order.
void all_passes(const TrainSetting& now, const ShortRun&, Changes& changes) {
  if (now.options.compile && now.options.passes.empty()) return;
  TrainSetting after = now;
  after.options.compile = true;
  after.options.passes.clear();
  const std::string options =
      fmt::format("{}--passes all", now.options.compile ? "" : "--compile on ");
  changes.push_back(
      {"compiled steps (all passes)", options, after, launch_causes(), Effect::rounding});
}

Change<TrainSetting> in_precision(const TrainSetting& now, const std::string& precision,
                                  Effect effect) {
  TrainSetting after = now;
  after.recipe.precision = precision;
  return {"matrix products and convolutions in " + precision,
          "--precision " + precision,
          after,
          {Cause::compute},
          effect};
}

/// Products of f32 by matrix units; elsewhere than on cuda it is fp32.
void multiply_tf32(const TrainSetting& now, const ShortRun&, Changes& changes) {
  if (now.recipe.precision != "fp32" || now.options.devices[0].kind != DeviceKind::cuda) return;
  changes.push_back(in_precision(now, "tf32", Effect::rounding));
}

void change_workers(const TrainSetting& now, const ShortRun& run, Changes& changes) {
  if (now.options.data_on_device) return;
  const auto add = [&](const std::string& what, const std::string& option, int workers) {
    TrainSetting after = now;
    after.options.workers = workers;
    changes.push_back({what, "--workers " + option, after, {Cause::input}});
  };
  for (const int count : more_workers(run)) add(workers_text(count), std::to_string(count), count);
  if (now.options.workers >= 0) add("as many loader workers as it takes", "auto", -1);
}

void augment_on_device(const TrainSetting& now, const ShortRun& run, Changes& changes) {
  const TrainOptions& o = now.options;
  if (o.data_on_device || o.devices.size() > 1 || o.devices[0].is_cpu() || !run.augments_on_host ||
      !run.has_pictures)
    return;
  TrainSetting after = now;
  after.options.augment_on = AugmentOn::device;
  changes.push_back(
      {"pictures augmented on the device", "--augment-on device", after, input_causes()});
}

void keep_data_on_device(const TrainSetting& now, const ShortRun& run, Changes& changes) {
  if (now.options.data_on_device || now.options.devices.size() > 1 || !run.has_pictures) return;
  TrainSetting after = now;
  after.options.data_on_device = true;
  after.options.augment_on = AugmentOn::automatic;
  changes.push_back({"data on the device", "--data-on-device", after, input_causes()});
}

void queue_more_steps(const TrainSetting& now, const ShortRun& run, Changes& changes) {
  constexpr int64_t kMost = 100;
  constexpr double kLongest = 0.5;  // seconds of a launch; what it saves is little then
  if (!now.options.data_on_device || !now.options.compile || now.options.steps_per_graph >= kMost)
    return;
  TrainSetting after = now;
  after.options.steps_per_graph = std::min(now.options.steps_per_graph * 10, kMost);
  if (static_cast<double>(after.options.steps_per_graph) * run.seconds_per_step > kLongest) return;
  changes.push_back({fmt::format("{} steps in a launch", after.options.steps_per_graph),
                     fmt::format("--steps-per-graph {}", after.options.steps_per_graph),
                     after,
                     {Cause::dispatch, Cause::input, Cause::user, Cause::full_queue,
                      Cause::synchronize, Cause::host_compute}});
}

void lower_precision(const TrainSetting& now, const ShortRun&, Changes& changes) {
  if (now.recipe.precision != "fp32" && now.recipe.precision != "tf32") return;
  changes.push_back(in_precision(now, "bf16", Effect::learning));
}

/// The learning rate follows: with the batch for SGD (Goyal et al., 2017), with its root for
/// optimizers that divide by the gradients' size (Malladi et al., 2022).
void enlarge_batch(const TrainSetting& now, const ShortRun& run, Changes& changes) {
  constexpr int64_t kLeastSteps = 50;  // of an epoch
  TrainSetting after = now;
  after.recipe.batch *= 2;
  // A peak of its own follows no learning rate.
  if (run.samples / after.recipe.batch < kLeastSteps || now.recipe.schedule.max_lr > 0) return;
  after.recipe.optimizer.lr *= now.recipe.optimizer.name == "sgd" ? 2 : std::sqrt(2.0);
  changes.push_back(
      {fmt::format("batches of {}", after.recipe.batch),
       fmt::format("--batch {} --lr {}", after.recipe.batch, after.recipe.optimizer.lr), after,
       launch_causes(), Effect::learning});
  changes.back().causes.insert(changes.back().causes.end(),
                               {Cause::communication, Cause::peer, Cause::user, Cause::host_read});
}

}  // namespace

const std::vector<Cause>& launch_causes() {
  static const std::vector<Cause> causes = {Cause::dispatch, Cause::allocator, Cause::full_queue,
                                            Cause::compute};
  return causes;
}
const std::vector<Cause>& input_causes() {
  static const std::vector<Cause> causes = {Cause::input, Cause::copy_to_device, Cause::staging,
                                            Cause::stolen, Cause::allocator};
  return causes;
}

std::vector<int> more_workers(const ShortRun& run) {
  // Those that wait for storage need no CPU.
  const int least = run.workers + 1, most = std::max(8, 2 * available_cpus());
  if (run.workers >= most) return {};
  const double fed = 1 - std::min(run.account.fraction(Cause::input), 0.99);
  const int enough = static_cast<int>(std::ceil(1.1 * std::max(run.workers, 1) / fed));
  return {std::clamp(enough, least, most), std::clamp(2 * run.workers, least, most)};
}

std::string workers_text(int workers) {
  return fmt::format("{} loader worker{}", workers, workers == 1 ? "" : "s");
}

Changes possible_changes(const TrainSetting& setting, const ShortRun& run,
                         const DoctorOptions& how) {
  Changes changes;
  if (how.allow_rounding) {
    all_passes(setting, run, changes);
    multiply_tf32(setting, run, changes);
  }
  for (const auto& propose :
       {compile_exactly, change_workers, augment_on_device, keep_data_on_device, queue_more_steps})
    propose(setting, run, changes);
  if (how.allow_precision) lower_precision(setting, run, changes);
  if (how.allow_batch) enlarge_batch(setting, run, changes);
  return changes;
}

}  // namespace brim::train
