#include "train/doctor/short_run.h"

#include <brim/train/status.h>

#include <algorithm>
#include <chrono>

namespace brim::train {
namespace {

using Clock = std::chrono::steady_clock;

// Of training, until it is measured: batches that were made ahead are gone by then, and a graph was
// launched twice.
constexpr int64_t kLeastWarmSteps = 8;
constexpr double kMostWarmTimes = 4;  // of the measured time, where steps take long
constexpr int64_t kLeastSteps = 4;    // that are measured
constexpr double kTick = 0.01;        // seconds between looks at the clock

/// Watches the training from within its thread.
class Stopwatch {
 public:
  Stopwatch(double seconds, int64_t steps_per_graph, const StatusBoard& board)
      : seconds_(seconds), steps_per_graph_(steps_per_graph), board_(board) {}

  /// Whether all was measured.
  bool look(int64_t step) {
    const Clock::time_point now = Clock::now();
    if (first_ == Clock::time_point()) first_ = now;
    const RunStatus status = board_.read();
    if (!began_) {
      const int64_t warm =
          std::max({kLeastWarmSteps, int64_t{2} * status.slots + 2, 2 * steps_per_graph_});
      const bool is_long = passed(first_, now) > kMostWarmTimes * seconds_ && step >= 2;
      if (step < warm && !is_long) return false;
      began_ = true;
      begin_ = now;
      first_step_ = step;
      before_ = status.devices[0].account;
      return false;
    }
    const double took = passed(begin_, now);
    const int64_t steps = step - first_step_;
    if (took < seconds_ || steps < kLeastSteps) return false;
    run_.steps = steps;
    run_.seconds_per_step = took / static_cast<double>(steps);
    run_.account = status.devices[0].account;
    run_.account.wall -= before_.wall;
    for (size_t i = 0; i < before_.seconds.size(); ++i)
      run_.account.seconds[i] = std::max(run_.account.seconds[i] - before_.seconds[i], 0.0);
    run_.workers = status.workers;
    return true;
  }
  const ShortRun& run() const { return run_; }

 private:
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
  TrainOptions o = options;
  StatusBoard board(o.devices);
  Stopwatch watch(seconds, o.steps_per_graph, board);
  std::atomic<int> ends{0};
  bool is_measured = false;
  o.out.clear();
  o.resume.clear();
  o.max_steps = 0;
  o.account = true;
  o.tick_seconds = kTick;
  o.board = &board;
  o.heat = nullptr;
  o.stage = {};
  o.first_step = {};
  o.warn = {};
  o.stop = &ends;
  o.progress = [&](const Progress& p) {
    if (stop && stop->load() != 0)
      ends = 1;
    else if (!is_measured && watch.look(p.step))
      is_measured = true, ends = 1;
  };
  if (stop && stop->load() != 0) return {};
  Trainer trainer(endless, o);
  const TrainResult result = trainer.train();
  if (!is_measured) return {};
  ShortRun run = watch.run();
  run.augments_on_host = !result.augmented_on_device;
  return run;
}

}  // namespace brim::train
