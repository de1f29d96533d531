#include "train/doctor/short_run.h"

#include <brim/core/stream.h>
#include <brim/train/status.h>

#include <algorithm>
#include <chrono>

#include "core/check.h"

namespace brim::train {
namespace {

using Clock = std::chrono::steady_clock;

// Of training, until it is measured: batches that were made ahead are gone by then, and a graph was
// launched twice.
constexpr int64_t kLeastWarmSteps = 8;
constexpr double kMostWarmTimes = 4;  // of the measured time, where steps take long
constexpr int64_t kLeastSteps = 4;    // that are measured
constexpr int64_t kReportEvery = 16;  // steps
constexpr double kTick = 0.01;        // seconds between looks at the clock

/// Watches the training from within its thread.
class Stopwatch {
 public:
  Stopwatch(double seconds, int64_t steps_per_graph, const StatusBoard& board)
      : seconds_(seconds), steps_per_graph_(steps_per_graph), board_(board) {}

  /// Whether all was measured.
  bool look(int64_t step) {
    Clock::time_point now = Clock::now();
    if (first_ == Clock::time_point()) first_ = now;
    const RunStatus status = board_.read();
    if (!began_) {
      const int64_t warm =
          std::max({kLeastWarmSteps, int64_t{2} * status.slots + 2, 2 * steps_per_graph_});
      const bool is_long = passed(first_, now) > kMostWarmTimes * seconds_ && step >= 2;
      if (step < warm && !is_long) return false;
      began_ = true;
      begin_ = now = finished();
      first_step_ = step;
      before_ = status.devices[0].account;
      return false;
    }
    const double took = passed(begin_, now);
    const int64_t steps = step - first_step_;
    if (took < seconds_ || steps < kLeastSteps) return false;
    run_.steps = steps;
    run_.seconds_per_step = passed(begin_, finished()) / static_cast<double>(steps);
    run_.account = status.devices[0].account;
    run_.account.wall -= before_.wall;
    for (size_t i = 0; i < before_.seconds.size(); ++i)
      run_.account.seconds[i] = std::max(run_.account.seconds[i] - before_.seconds[i], 0.0);
    run_.workers = status.workers;
    return true;
  }
  const ShortRun& run() const { return run_; }

 private:
  /// What was queued is done: the host may be a thousand launches ahead. Of this thread's device
  /// alone; another one's work may wait for what this thread has yet to queue.
  Clock::time_point finished() const {
    synchronize(board_.read().devices[0].device);
    return Clock::now();
  }
  static double passed(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  const double seconds_;
  const int64_t steps_per_graph_;
  const StatusBoard& board_;
  bool began_ = false;
  Clock::time_point first_, begin_;
  int64_t first_step_ = 0;
  diag::Account before_;
  ShortRun run_;
};

}  // namespace

std::optional<ShortRun> run_shortly(const Recipe& recipe, const TrainOptions& options,
                                    double seconds, const std::atomic<int>* stop) {
  constexpr int64_t kEnough = 1'000'000;  // epochs: the clock ends it
  Recipe endless = recipe;
  endless.epochs = kEnough;
  endless.validation.patience = 0;
  TrainOptions o = options;
  StatusBoard board(o.devices);
  Stopwatch watch(seconds, o.steps_per_graph, board);
  std::atomic<int> ends{0};
  const auto listen = [&] {
    if (stop && stop->load() != 0) ends = 1;
  };
  bool is_measured = false;
  o.out.clear();
  o.resume.clear();
  o.max_steps = 0;
  o.account = true;
  o.tick_seconds = kTick;
  o.board = &board;
  o.heat = nullptr;
  o.stage = [&](const char*, double) { listen(); };
  o.first_step = {};
  o.warn = {};
  o.stop = &ends;
  // Records of a CUDA device are complete where the loss is read, so it is measured from there on.
  const bool by_reports = o.devices[0].kind == DeviceKind::cuda;
  if (by_reports) o.report_every = std::max<int64_t>(kReportEvery, o.steps_per_graph);
  o.progress = [&](const Progress& p) {
    listen();
    if (ends == 0 && !is_measured && (p.report || !by_reports) && watch.look(p.step))
      is_measured = true, ends = 1;
  };
  const auto is_stopped = [&] { return stop && stop->load() != 0; };
  if (is_stopped()) return {};
  try {
    Trainer trainer(endless, o);
    const TrainResult result = trainer.train();
    if (!is_measured && is_stopped()) return {};
    BRIM_CHECK(is_measured, Error,
               "[doctor] the training ended after {} steps, before it could be measured",
               result.steps);
    ShortRun run = watch.run();
    run.augments_on_host = !result.augmented_on_device;
    run.has_pictures = trainer.loader().has_pictures();
    return run;
  } catch (const Error&) {
    if (is_stopped()) return {};  // while data was opened
    throw;
  }
}

}  // namespace brim::train
