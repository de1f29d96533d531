#include "command/train_session.h"

#include <brim/diag/monitor.h>
#include <brim/diag/trace.h>
#include <brim/dist/launch.h>
#include <brim/dist/trace.h>
#include <brim/train/heat_guard.h>
#include <brim/train/trainer.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "command/command.h"
#include "command/forecast_history.h"
#include "command/format.h"
#include "command/live_run.h"
#include "command/monitor_report.h"
#include "command/option_names.h"
#include "command/progress.h"
#include "command/rank_rows.h"
#include "command/reconciliation.h"
#include "command/report.h"
#include "command/run_phases.h"
#include "command/say.h"
#include "command/signals.h"
#include "command/start.h"
#include "command/tensorboard_log.h"
#include "command/train_report.h"
#include "command/train_request.h"
#include "command/training_options.h"
#include "command/wrong_pictures.h"
#include "core/clock.h"
#include "core/printable.h"
#include "io/atomic_file.h"
#include "train/run_folder.h"

namespace brim::command {
namespace {

/// Writes the trace, of all ranks in rank 0, and says where, and whether it is whole. Null for a
/// rank that has none.
void save_trace(const diag::Trace* trace, dist::ProcessGroup* group, const std::string& path,
                bool quiet) {
  if (group && (group->rank() > 0 || path.empty())) {
    (void)dist::write_trace(*group, trace, [](std::string_view) {});
    return;
  }
  std::optional<io::AtomicFile> file;
  std::exception_ptr failure;  // the other ranks send theirs whether or not it can be kept
  const auto attempt = [&](const auto& action) {
    if (!failure) try {
        action();
      } catch (...) {
        failure = std::current_exception();
      }
  };
  attempt([&] { file.emplace(path); });
  const auto sink = [&](std::string_view piece) { attempt([&] { file->write(piece); }); };
  int64_t dropped = trace->dropped();
  if (group)
    dropped = dist::write_trace(*group, trace, sink);
  else
    trace->write(sink);
  attempt([&] { file->commit(); });
  if (failure) std::rethrow_exception(failure);
  if (dropped > 0)
    say(stderr, "brim: warning: the trace holds the first {} events{}, {} are left out\n",
        trace->events(), group ? " of this rank" : "", dropped);
  if (!quiet)
    say(stdout, "trace of {} {} in {}; open it in ui.perfetto.dev\n",
        group ? group->size() : trace->events(), group ? "ranks" : "events", path);
}

class TrainSession {
 public:
  explicit TrainSession(const TrainRequest& request)
      : request_(request),
        arguments_(request.arguments),
        quiet_(is_stdout(arguments_.json) || request.launched.rank > 0),
        display_(quiet_),
        stop_(watch_signals()),
        live_({.recipe = request.recipe,
               .folder = arguments_.folder(),
               .rank = request.launched.rank,
               .ranks = request.launched.size},
              request.chosen.devices) {}

  int run() {
    set_limits();
    live_.serve(arguments_, quiet_);
    if (!open()) {
      display_.finish();
      say(stderr, "brim: stopped before the first step; nothing was saved\n");
      return 128 + stop_.load();
    }
    display_.finish();
    if (!quiet_) print_start(request_, *trainer_);
    phases_.end("start");
    train();
    phases_.end("train");
    phases_.move("train", "compile", result_.compile.compile_ms * 1e-3);
    const bool trained = !result_.stopped;
    finish(trained);
    live_.end(failure_          ? train::RunPhase::failed
              : result_.stopped ? train::RunPhase::stopped
                                : train::RunPhase::finished);
    for (const std::string& error : live_.errors()) warn(error);
    if (trained && !failure_) keep_training(request_, *trainer_, result_, training_peak_, sensors_);
    report(trained);
    if (failure_) std::rethrow_exception(failure_);
    if (!result_.stopped) return 0;
    const int signal = stop_.load();  // 0: another rank got it
    return 128 + (signal != 0 ? signal : SIGTERM);
  }

 private:
  void set_limits() {
    const ChosenDevices& chosen = request_.chosen;
    if (!quiet_ && !chosen.reason.empty()) {
      say(stdout, "{}\n", chosen.line());
      std::fflush(stdout);
    }
    command::set_limits(request_);
  }

  train::TrainOptions options() {
    train::TrainOptions o = train_options(request_);
    o.weights = arguments_.weights;
    o.group = group_;
    o.max_steps = arguments_.steps.value_or(0);
    o.out = arguments_.out;
    o.resume = arguments_.resume;
    o.change_precision = !arguments_.precision.empty();
    o.change_compile = !arguments_.compile.empty() || !arguments_.passes.empty();
    o.checkpoint = request_.checkpoint;
    o.progress = [this](const train::Progress& p) { show(p); };
    o.stage = [this](const char* what, double part) { display_.show(what, part); };
    o.first_step = [this] { startup_ms_ = milliseconds_since_start(); };
    o.board = &live_.board();
    o.keep_gradients = !arguments_.tensorboard.empty();  // rank 0's
    o.heat = heat_ ? &*heat_ : nullptr;
    o.warn = [this](const std::string& line) { warn(line); };
    o.stop = &stop_;
    return o;
  }

  /// False if the run was stopped before it began.
  bool open() {
    try {
      with_hint([&] {
        if (request_.launched.is_distributed()) {
          dist::GroupOptions how;
          if (!arguments_.folder().empty()) how.record_folder = failures_folder();
          group_ = dist::open_world(request_.launched, how);
        }
        if (arguments_.max_temperature)
          heat_.emplace(train::HeatGuardOptions{.limit = *arguments_.max_temperature,
                                                .period = arguments_.monitor});
        trainer_.emplace(request_.recipe, options());
        if (!arguments_.tensorboard.empty())
          tensorboard_.emplace(arguments_.tensorboard, request_.recipe, request_.chosen.devices,
                               *trainer_, [this](const std::string& line) { warn(line); });
      });
      live_.document().set_steps_before(trainer_->steps_before());
      // The folder is this run's from here on.
      std::error_code ignored;
      if (group_ && group_->rank() == 0 && !arguments_.folder().empty())
        std::filesystem::create_directory(failures_folder(), ignored);
      display_.count(counted(*trainer_));
      return true;
    } catch (const Error&) {
      if (stop_.load() == 0) throw;
      return false;
    }
  }

  std::string failures_folder() const { return arguments_.folder() + "/failures"; }

  void train() {
    if (request_.traces) {
      trace_begin_ = unix_seconds();
      trace_.emplace();
    }
    if (arguments_.monitor > 0)
      monitor_.emplace(request_.chosen.devices,
                       diag::MonitorOptions{arguments_.monitor, [&](const auto& r) { keep(r); }});
    try {
      with_hint([&] {
        result_ = trainer_->train();
        training_peak_ = Allocator::of(request_.chosen.devices[0]).stats().peak_live;
        if (group_) rows_ = gather_rows(*group_, request_.chosen.devices[0], result_);
      });
    } catch (...) {
      // Where the folder is a run's already, that it failed.
      if (live_.has_reports() || !arguments_.resume.empty()) live_.end(train::RunPhase::failed);
      throw;
    }
    if (monitor_) {
      monitor_->stop();
      sensors_ = monitor_->total();
      if (!sensors_shown_) show_sensors(*sensors_);
      monitor_.reset();
    }
    if (!live_.unwatched().empty()) warn(live_.unwatched());
    display_.finish();
  }

  /// Launchers may give --trace to some ranks alone.
  void save_traces() {
    bool any = trace_.has_value();
    if (group_)
      for (const std::string& rank : group_->all_gather_text(any ? "traces" : ""))
        any = any || !rank.empty();
    if (any) save_trace(trace_ ? &*trace_ : nullptr, group_.get(), arguments_.trace, quiet_);
  }

  /// What follows the training. Whatever of it fails, the rest is done.
  void finish(bool trained) {
    if (trained) attempt([&] { trainer_->save(); });
    phases_.end("save");
    attempt([&] { save_traces(); });
    trace_.reset();
    phases_.end("rest");
    // Rank 0 tests alone, for as long as it takes; should it fail, a launcher begins all anew, and
    // so all must be there.
    dist::GroupPtr end;
    if (group_) attempt([&] { end = group_->duplicate(/*timeout=*/0); });
    if (trained) attempt([&] { result_.test = trainer_->test(); });
    if (result_.test && !failure_ && !arguments_.folder().empty()) show_wrong();
    if (end) attempt([&] { end->barrier(); });
    display_.finish();
    phases_.end("evaluate");
    std::error_code ignored;  // it stays if there is anything in it
    if (group_ && group_->rank() == 0 && !arguments_.folder().empty())
      std::filesystem::remove(failures_folder(), ignored);
    if (tensorboard_) tensorboard_->add(result_, trainer_->test_loader());
    if (trained && request_.launched.rank == 0)  // which alone evaluates
      result_.stopped = !result_.test && !failure_ && stop_.load() != 0;
  }

  /// The pictures are for people to look at: the run is none the worse without.
  void show_wrong() {
    try {
      save_wrong_pictures(*result_.test, *trainer_->test_loader(), arguments_.folder());
    } catch (const Error& e) {
      warn(e.what() + std::string("; the most wrong pictures are not kept"));
    }
  }

  void report(bool trained) {
    if (!quiet_) print_result(request_, *trainer_, result_, trained, failure_ != nullptr);
    if (const auto energy = energy_json(request_, result_, sensors_); !quiet_ && !energy.is_null())
      say(stdout, "{}\n", energy_line(energy));
    if (!quiet_)
      for (const std::string& line : reconciliation_lines(reconciliation_json(result_, sensors_)))
        say(stdout, "{}\n", line);
    if (!quiet_ && !rows_.empty()) say(stdout, "{}", Lines{rows_table(rows_)});
    phases_.end("rest");
    if (!quiet_) say(stdout, "{}\n", phases_.line());
    std::vector<std::string> outputs;
    if (!arguments_.json.empty()) outputs.push_back(arguments_.json);
    if (!arguments_.folder().empty() && request_.launched.rank == 0)
      outputs.push_back(arguments_.folder() + "/" + train::kResultFile);
    if (!outputs.empty())
      attempt([&] {
        nlohmann::ordered_json json =
            result_json(request_, *trainer_, result_, startup_ms_, phases_, sensors_);
        json["trace"] = nullptr;
        if (!arguments_.trace.empty())
          json["trace"] = {
              {"file", printable(std::filesystem::absolute(arguments_.trace).string())},
              {"begin", trace_begin_}};
        if (!rows_.empty()) {
          json["ranks"]["rows"] = rows_json(rows_);
          json["ranks"]["summary"] = summary_json(rows_);
        }
        for (const std::string& path : outputs) write_json(json, path);
      });
    if (!result_.stopped) return;
    if (trained)
      say(stderr, "brim: stopped during the evaluation, after the training was finished{}\n",
          arguments_.folder().empty() ? "" : " and saved to " + arguments_.folder());
    else
      attempt([&] { say(stderr, "brim: {}\n", resume_hint(arguments_, *trainer_, result_)); });
  }

  void keep(const diag::Reading& reading) {
    live_.add_reading(reading);
    if (heat_) heat_->add(reading);
    if (tensorboard_) tensorboard_->add(reading);
  }
  void show(const train::Progress& p) {
    if (p.report) live_.add_report();
    if (tensorboard_) tensorboard_->add(p, trainer_->model());
    display_.show(p);
    display_.show_validation(p);
    if (p.epoch_done && monitor_) show_sensors(monitor_->summary());
  }
  void show_sensors(const diag::MonitorSummary& summary) {
    if (quiet_) return;
    for (const std::string& line : sensor_lines(summary)) {
      display_.finish();
      say(stdout, "{}\n", line);
      sensors_shown_ = true;
    }
  }
  void warn(const std::string& line) {
    display_.finish();
    say(stderr, "brim: warning: {}\n", with_option_names(line));
  }

  /// Does it; where memory or a device gives out, the error names the checkpoint that is kept.
  template <class F>
  void with_hint(const F& action) {
    try {
      action();
    } catch (const OutOfMemory& e) {
      throw Error(e.what() + kept_hint(arguments_));
    } catch (const DeviceError& e) {
      throw Error(e.what() + kept_hint(arguments_) + request_.chosen.hint());
    }
  }
  /// The same; the first error is kept for the end of the run.
  template <class F>
  void attempt(const F& action) {
    try {
      with_hint(action);
    } catch (const std::exception&) {
      if (!failure_) failure_ = std::current_exception();
    }
  }

  const TrainRequest& request_;
  const TrainArguments& arguments_;
  const bool quiet_;
  ProgressDisplay display_;
  const std::atomic<int>& stop_;
  LiveRun live_;
  std::optional<TensorBoardLog> tensorboard_;
  int64_t training_peak_ = 0;  // bytes of the first device, before the test
  std::optional<train::HeatGuard> heat_;
  std::optional<diag::Monitor> monitor_;
  bool sensors_shown_ = false;
  double startup_ms_ = 0;
  RunPhases phases_;
  dist::GroupPtr group_;
  std::vector<RankRow> rows_;
  std::optional<train::Trainer> trainer_;
  std::optional<diag::Trace> trace_;
  double trace_begin_ = 0;  // Unix seconds
  train::TrainResult result_;
  std::optional<diag::MonitorSummary> sensors_;
  std::exception_ptr failure_;
};

}  // namespace

int run_training(const TrainRequest& request) { return TrainSession(request).run(); }

}  // namespace brim::command
