#include "train/doctor/short_run.h"

#include <brim/train/status.h>

#include <algorithm>

#include "core/check.h"
#include "train/doctor/evidence.h"
#include "train/doctor/stopwatch.h"

namespace brim::train {

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
  o.stage = [&](const char*, double) { listen(); };
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
