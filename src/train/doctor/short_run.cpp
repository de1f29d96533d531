#include "train/doctor/short_run.h"

#include <brim/train/status.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "core/check.h"
#include "core/runtime.h"
#include "train/doctor/evidence.h"
#include "train/doctor/stopwatch.h"

namespace brim::train {

namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of an evaluation on the validation split. One that takes longer than `seconds` is
/// stopped by `ends`, and taken for as long as what was done of it makes likely; several devices,
/// which end it together, do all of it.
class EvaluationClock {
 public:
  EvaluationClock(double seconds, size_t devices, std::atomic<int>& ends)
      : limit_(devices == 1 ? seconds : std::numeric_limits<double>::infinity()), ends_(ends) {}

  void look(double fraction) {
    fraction_ = fraction;
    if (is_running_ && passed() >= limit_ && fraction < 1) ends_ = 1;
  }
  /// Nothing where there is none, or nothing of it was done.
  std::optional<double> measure(Trainer& trainer, Device device) {
    synchronize(device);
    begin_ = Clock::now();
    fraction_ = 0;  // the stages before were others
    is_running_ = true;
    const bool is_whole = trainer.validate().has_value();
    synchronize(device);
    is_running_ = false;
    if (is_whole) return passed();
    return fraction_ > 0 ? std::optional(passed() / fraction_) : std::nullopt;
  }

 private:
  double passed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  const double limit_;
  std::atomic<int>& ends_;
  Clock::time_point begin_;
  bool is_running_ = false;
  double fraction_ = 0;
};

}  // namespace

void charge_evaluations(ShortRun& run, double seconds, int64_t steps_per_epoch) {
  diag::Account& account = run.account;
  double& evaluation = account.seconds[static_cast<size_t>(diag::Cause::evaluation)];
  run.seconds_per_step *= 1 - evaluation / account.wall;  // what there was of it by chance
  account.wall -= evaluation;
  const double steps = account.wall / run.seconds_per_step;
  const double each = seconds / static_cast<double>(steps_per_epoch);
  evaluation = steps * each;
  account.wall += evaluation;
  run.seconds_per_step += each;
}

TrainOptions silent(TrainOptions options) {
  options.out.clear();
  options.resume.clear();
  options.board = nullptr;
  options.heat = nullptr;
  options.progress = {};
  options.stage = {};
  options.first_step = {};
  options.warn = {};
  return options;
}

std::optional<ShortRun> run_shortly(const Recipe& recipe, const TrainOptions& options,
                                    double seconds, const std::atomic<int>* stop) {
  constexpr int64_t kEnough = 1'000'000;  // epochs: the clock ends it
  constexpr int64_t kEpochsMeasured = 4;  // of fewer one cannot tell what evaluations cost
  Recipe endless = recipe;
  endless.epochs = kEnough;
  endless.validation.patience = 0;
  TrainOptions o = silent(options);
  StatusBoard board(o.devices);
  Stopwatch watch(seconds, o.devices[0], [&] { return board.read().devices[0].account; });
  std::atomic<int> ends{0};
  const auto listen = [&] {
    if (stop && stop->load() != 0) ends = 1;
  };
  bool is_measured = false;
  o.max_steps = 0;
  o.account = true;
  o.tick_seconds = kTick;
  o.board = &board;
  EvaluationClock evaluation(seconds, o.devices.size(), ends);
  o.stage = [&](const char*, double fraction) {
    listen();
    evaluation.look(fraction);
  };
  o.stop = &ends;
  // Records of a CUDA device are complete where the loss is read, so it is measured from there on.
  const bool by_reports = o.devices[0].kind == DeviceKind::cuda;
  if (by_reports) o.report_every = std::max<int64_t>(kRecordsEvery, o.steps_per_graph);
  o.progress = [&](const Progress& p) {
    listen();
    if (ends == 0 && !is_measured && (p.report || !by_reports) &&
        watch.look(p.step, board.read().slots, o.steps_per_graph))
      is_measured = true, ends = 1;
  };
  const auto is_stopped = [&] { return stop && stop->load() != 0; };
  if (is_stopped()) return {};
  MachineWatch machine;
  try {
    Trainer trainer(endless, o);
    const TrainResult result = trainer.train();
    if (!is_measured && is_stopped()) return {};
    BRIM_CHECK(is_measured, Error,
               "[doctor] the training ended after {} steps, before it could be measured",
               result.steps);
    ShortRun run = watch.run();
    const int64_t per_epoch = trainer.loader().is_iterable() ? 0 : trainer.loader().batches();
    if (recipe.validation.fraction > 0 && run.steps < kEpochsMeasured * per_epoch) {
      ends = 0;
      if (const auto took = evaluation.measure(trainer, o.devices[0]))
        charge_evaluations(run, *took, per_epoch);
      if (is_stopped()) return {};
    }
    run.workers = board.read().workers;
    run.batch = recipe.batch;
    run.samples = trainer.loader().is_iterable() ? 0 : trainer.loader().samples();
    run.augments_on_host = !result.augmented_on_device;
    run.has_pictures = trainer.loader().has_pictures();
    run.evidence = machine.evidence();
    run.evidence.workers = data::sum(trainer.loader().worker_accounts());
    run.evidence.worker_count = run.workers;
    run.evidence.eager = result.compile.fell_back;
    return run;
  } catch (const Error&) {
    if (is_stopped()) return {};  // while data was opened
    throw;
  }
}

}  // namespace brim::train
