#include "train/doctor/changes.h"

#include <brim/core/threads.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace brim::train {
namespace {

using diag::Cause;
using Changes = std::vector<Change>;

/// A plan without the passes that round otherwise: the bits are those of eager steps.
void compile_exactly(const TrainOptions& now, const ShortRun&, Changes& changes) {
  if (now.compile) return;
  TrainOptions after = now;
  after.compile = true;
  after.passes = "exact";
  changes.push_back({"compiled steps (exact passes)",
                     "--compile on --passes exact",
                     after,
                     {Cause::dispatch, Cause::allocator, Cause::full_queue, Cause::compute}});
}

/// Sums in another order.
void all_passes(const TrainOptions& now, Changes& changes) {
  if (now.compile && now.passes.empty()) return;
  TrainOptions after = now;
  after.compile = true;
  after.passes.clear();
  changes.push_back({"compiled steps (all passes)",
                     "--compile on",
                     after,
                     {Cause::dispatch, Cause::allocator, Cause::full_queue, Cause::compute},
                     true});
}

void change_workers(const TrainOptions& now, const ShortRun& run, Changes& changes) {
  if (now.data_on_device) return;
  const auto add = [&](const std::string& what, const std::string& option, int workers) {
    TrainOptions after = now;
    after.workers = workers;
    changes.push_back({what, "--workers " + option, after, {Cause::input}});
  };
  // Those that wait for storage need no CPU.
  const int least = run.workers + 1, most = std::max(8, 2 * available_cpus());
  const double fed = 1 - std::min(run.account.fraction(Cause::input), 0.99);
  const int enough = static_cast<int>(std::ceil(1.1 * std::max(run.workers, 1) / fed));
  if (run.workers < most)
    for (const int workers : {enough, 2 * run.workers}) {
      const int count = std::clamp(workers, least, most);
      add(fmt::format("{} loader worker{}", count, count == 1 ? "" : "s"), std::to_string(count),
          count);
    }
  if (now.workers >= 0) add("as many loader workers as it takes", "auto", -1);
}

void augment_on_device(const TrainOptions& now, const ShortRun& run, Changes& changes) {
  if (now.data_on_device || now.devices.size() > 1 || now.devices[0].is_cpu() ||
      !run.augments_on_host || !run.has_pictures)
    return;
  TrainOptions after = now;
  after.augment_on = AugmentOn::device;
  changes.push_back({"pictures augmented on the device",
                     "--augment-on device",
                     after,
                     {Cause::input, Cause::copy_to_device, Cause::staging, Cause::stolen}});
}

void keep_data_on_device(const TrainOptions& now, const ShortRun& run, Changes& changes) {
  if (now.data_on_device || now.devices.size() > 1 || !run.has_pictures) return;
  TrainOptions after = now;
  after.data_on_device = true;
  after.augment_on = AugmentOn::automatic;
  changes.push_back(
      {"data on the device",
       "--data-on-device",
       after,
       {Cause::input, Cause::copy_to_device, Cause::staging, Cause::stolen, Cause::allocator}});
}

void queue_more_steps(const TrainOptions& now, const ShortRun& run, Changes& changes) {
  constexpr int64_t kMost = 100;
  constexpr double kLongest = 0.5;  // seconds of a launch; what it saves is little then
  if (!now.data_on_device || !now.compile || now.steps_per_graph >= kMost) return;
  TrainOptions after = now;
  after.steps_per_graph = std::min(now.steps_per_graph * 10, kMost);
  if (static_cast<double>(after.steps_per_graph) * run.seconds_per_step > kLongest) return;
  changes.push_back({fmt::format("{} steps in a launch", after.steps_per_graph),
                     fmt::format("--steps-per-graph {}", after.steps_per_graph),
                     after,
                     {Cause::dispatch, Cause::input, Cause::user, Cause::full_queue,
                      Cause::synchronize, Cause::host_compute}});
}

}  // namespace

Changes possible_changes(const TrainOptions& options, const ShortRun& run, bool allow_rounding) {
  Changes changes;
  if (allow_rounding) all_passes(options, changes);
  for (const auto& propose :
       {compile_exactly, change_workers, augment_on_device, keep_data_on_device, queue_more_steps})
    propose(options, run, changes);
  return changes;
}

}  // namespace brim::train
