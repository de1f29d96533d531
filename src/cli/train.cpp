// `brim train RECIPE|FILE.toml`: trains, shows progress, then prints accuracy and the account.
#include <brim/core/allocator.h>
#include <brim/core/threads.h>
#include <brim/diag/monitor.h>
#include <brim/diag/trace.h>
#include <brim/train/trainer.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/checkpoint_every.h"
#include "cli/command.h"
#include "cli/device_option.h"
#include "cli/format.h"
#include "cli/libraries.h"
#include "cli/monitor_report.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "cli/start.h"
#include "core/device_names.h"
#include "io/atomic_file.h"
#include "train/run_folder.h"

namespace brim::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TrainOptions {
  std::string recipe, data, device = "auto", workers = "auto", out, resume, memory_limit, json,
                            trace;
  std::string checkpoint_every = "60s";
  std::string compile, passes, precision, augment_on = "auto";
  bool data_on_device = false;
  int64_t steps_per_graph = 1;
  bool explain = false;
  double monitor = 1;
  std::optional<int64_t> epochs, batch, steps;
  std::optional<double> lr;
  std::optional<uint64_t> seed;
  int threads = 0;
  int64_t keep = 2;
  std::string repeated;  // options that a resumed run needs again, as typed
};

/// The recipe with the options over it. A resumed run takes its recipe from the checkpoint.
train::Recipe chosen_recipe(const TrainOptions& o) {
  if (o.recipe.empty() && o.resume.empty())
    throw UsageError(fmt::format("which recipe? Give a FILE.toml or a built-in one: {}",
                                 fmt::join(train::recipe_names(), ", ")));
  train::Recipe r =
      o.recipe.empty() ? train::checkpoint_recipe(o.resume) : train::load_recipe(o.recipe);
  if (!o.data.empty()) r.data = o.data;
  if (o.epochs) r.epochs = *o.epochs;
  if (o.batch) r.batch = *o.batch;
  if (o.lr) r.optimizer.lr = *o.lr;
  if (o.seed) r.seed = *o.seed;
  if (!o.precision.empty()) r.precision = o.precision;
  train::check_recipe(r);
  return r;
}

/// How steps are compiled. A resumed run does it as before, but for what is named.
train::StepMode chosen_mode(const TrainOptions& o, const std::optional<train::RunState>& before) {
  train::StepMode mode;
  if (before && before->mode) mode = *before->mode;
  if (!o.compile.empty()) mode.compile = o.compile == "on";
  if (!o.passes.empty()) mode.passes = o.passes;
  plan::check_passes(mode.passes);
  return mode;
}

int workers_of(const std::string& text) {
  if (text == "auto") return -1;
  int workers = -1;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, workers);
  if (error != std::errc() || at != end || workers < 0 || workers > 1024)
    throw UsageError(
        fmt::format("--workers '{}' is neither a number from 0 to 1024 nor auto", text));
  return workers;
}

train::AugmentOn augment_on_of(const std::string& word) {
  if (word == "host") return train::AugmentOn::host;
  return word == "device" ? train::AugmentOn::device : train::AugmentOn::automatic;
}

Json result_json(const ChosenDevices& chosen, const train::Recipe& r,
                 const train::TrainResult& result, double startup_ms, const train::Trainer& trainer,
                 const std::optional<diag::MonitorSummary>& sensors) {
  const auto number = [](double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); };
  Json json;
  json["recipe"] = r.name;
  json["data"] = r.data;
  json["device"] = names_of(chosen.devices);
  json["device_choice"] = chosen.json();
  json["precision"] = r.precision;
  json["loss_scale"] = result.loss_scale > 0 ? Json(result.loss_scale) : Json(nullptr);
  json["images_per_s"] = result.images_per_s;
  json["us_per_step"] = result.us_per_step;
  json["steps"] = result.steps;
  json["total_steps"] = result.total_steps;
  json["total_images"] = result.total_images;
  json["epochs"] = result.epochs_done;
  json["batch"] = r.batch;
  json["final_loss"] = number(result.final_loss);
  json["accuracy"] = result.test ? Json(result.test->accuracy) : Json(nullptr);
  json["per_class"] = result.test ? to_json(*result.test) : Json(nullptr);
  json["test_loss"] = result.test ? number(result.test->loss) : Json(nullptr);
  json["compile"] = to_json(result.compile);
  json["account"] = to_json(result.account);
  for (const auto& [device, account, recorded] : result.accounts) {
    json["accounts"][device.str()] = to_json(account);
    json["recorded"][device.str()] = recorded;
  }
  json["monitor"] = sensors ? to_json(*sensors) : Json(nullptr);
  json["seed"] = r.seed;
  json["peak_memory"] = Allocator::of(chosen.devices[0]).stats().peak_live;
  json["seconds"] = result.seconds;
  json["startup_ms"] = startup_ms;
  json["threads"] = num_threads();
  json["workers"] = trainer.loader().workers();
  json["loader"] = {{"workers", trainer.loader().workers()},
                    {"slots", trainer.loader().slots()},
                    {"decisions", trainer.loader().decisions()}};
  json["input"] = {{"augment_on", result.augmented_on_device ? "device" : "host"},
                   {"data_on_device", result.resident_bytes > 0},
                   {"resident_bytes", result.resident_bytes}};
  json["skipped"] = result.skipped;
  json["resumed_from"] =
      trainer.resumed_from().empty() ? Json(nullptr) : Json(trainer.resumed_from());
  json["checkpoints"] = result.checkpoints;
  json["checkpoint_failures"] = result.checkpoint_failures;
  json["stopped"] = result.stopped;
  json["versions"] = build_versions();
  return json;
}

/// Where the run stands after a stop, and what to type to go on.
std::string resume_hint(const TrainOptions& o, const train::Trainer& trainer,
                        const train::TrainResult& result) {
  const std::string folder = o.out.empty() ? o.resume : o.out;
  if (folder.empty())
    return fmt::format(
        "stopped at step {}; nothing was kept; with --out DIR a stopped run can be "
        "resumed",
        result.total_steps);
  const std::vector<std::string> kept = train::list_checkpoints(folder);
  if (kept.empty() && trainer.resumed_from().empty())
    return fmt::format("stopped at step {}; nothing was kept: {} holds no checkpoint",
                       result.total_steps, folder);
  const std::string last = kept.empty() ? trainer.resumed_from() : kept.front();
  const bool all = last.ends_with(train::checkpoint_path("", result.total_steps));
  std::string command = "brim train --resume " + shell_word(kept.empty() ? o.resume : folder);
  if (kept.empty()) command += " --out " + shell_word(folder);
  if (o.steps) {  // those that the checkpoint lacks
    const int64_t end = trainer.steps_before() + *o.steps;
    const int64_t held =
        kept.empty() ? trainer.steps_before() : std::stoll(last.substr(last.rfind('-') + 1));
    command += fmt::format(" --steps {}", end - held);
  }
  return fmt::format("stopped at step {}{}; to go on: {}{}", result.total_steps,
                     all ? "" : fmt::format(", the last checkpoint is {}", last), command,
                     o.repeated);
}

/// For the end of an error's line: the checkpoint that is kept, and how to go on from it.
std::string kept_hint(const TrainOptions& o) {
  const std::string& folder = o.out.empty() ? o.resume : o.out;
  const std::vector<std::string> kept =
      folder.empty() ? std::vector<std::string>{} : train::list_checkpoints(folder);
  if (kept.empty()) return "";
  return fmt::format("; {} is kept, to go on: brim train --resume {}{}", kept.front(),
                     shell_word(folder), o.repeated);
}

/// Options whose values are not in a checkpoint, or not in the one that was resumed, as they were
/// given.
std::string repeated_options(const Arguments& args) {
  std::string text;
  for (const char* name : {"--data", "--device", "--epochs", "--workers", "--threads",
                           "--precision", "--compile", "--passes", "--checkpoint-every", "--keep",
                           "--memory-limit", "--augment-on", "--steps-per-graph", "--monitor"})
    if (const std::vector<std::string> given = args.given(name); !given.empty())
      text += fmt::format(" {} {}", name, shell_word(given.back()));
  if (!args.given("--data-on-device").empty()) text += " --data-on-device";
  return text;
}

/// Writes the trace and says where, and whether it is whole.
void save_trace(const diag::Trace& trace, const std::string& path, bool quiet) {
  io::AtomicFile file(path);
  trace.write([&](std::string_view piece) { file.write(piece); });
  file.commit();
  if (trace.dropped() > 0)
    say(stderr, "brim: warning: the trace holds the first {} events, {} are left out\n",
        trace.events(), trace.dropped());
  if (!quiet)
    say(stdout, "trace of {} events in {}; open it in ui.perfetto.dev\n", trace.events(), path);
}

/// Throws UsageError if --json or --trace would replace what the run reads, or what it writes.
void check_outputs_of_run(const TrainOptions& o, const std::string& data) {
  const std::vector<NamedPath> outputs = {{"--json", o.json}, {"--trace", o.trace}};
  check_outputs(outputs, {{"the recipe", o.recipe}, {"the data", data}});
  for (const NamedPath& output : outputs)
    for (const std::string& folder : {o.out, o.resume})
      if (!output.path.empty() && !folder.empty() && train::belongs_to_run(folder, output.path))
        throw UsageError(
            fmt::format("{} {} is in the way of what the run keeps in {}; give another name",
                        output.name, output.path, folder));
}

int run(const TrainOptions& o) {
  const int workers = workers_of(o.workers);
  train::CheckpointOptions checkpoint{.keep = o.keep};
  parse_checkpoint_every(o.checkpoint_every, checkpoint);
  const train::Recipe recipe = chosen_recipe(o);
  std::optional<train::RunState> before;
  if (!o.resume.empty()) before = train::newest_state(o.resume);
  const train::StepMode mode = chosen_mode(o, before);
  const ChosenDevices chosen = choose_devices(o.device, before ? before->devices : "");
  const std::vector<Device>& devices = chosen.devices;
  check_json_path(o.json);
  check_output_path("trace", o.trace);
  check_outputs_of_run(o, recipe.data);
  if (o.monitor > 0 && o.monitor < 0.01)
    throw UsageError(
        fmt::format("--monitor {} is too often; use 0.01 or more, or 0 for none", o.monitor));
  if (o.threads > 0) set_num_threads(o.threads);

  const bool quiet = is_stdout(o.json);
  if (!quiet && !chosen.reason.empty()) {
    say(stdout, "{}\n", chosen.line());
    std::fflush(stdout);
  }
  if (!o.memory_limit.empty())
    on_chosen(chosen, [&] {
      for (const Device device : devices)
        Allocator::of(device).set_limit(parse_bytes(o.memory_limit, "--memory-limit"));
    });
  ProgressDisplay display(quiet);
  double startup_ms = 0;
  const std::atomic<int>& stop = watch_signals();
  const auto warn = [&](const std::string& line) {
    display.finish();
    say(stderr, "brim: warning: {}\n", line);
  };
  MonitorFile readings(o.out.empty() ? o.resume : o.out);
  std::optional<diag::Monitor> monitor;
  bool sensors_told = false;
  const auto tell_sensors = [&](const diag::MonitorSummary& summary) {
    if (quiet) return;
    for (const std::string& line : sensor_lines(summary)) {
      display.finish();
      say(stdout, "{}\n", line);
      sensors_told = true;
    }
  };
  const auto show_progress = [&](const train::Progress& p) {
    display.show(p);
    if (p.epoch_done && monitor) tell_sensors(monitor->summary());
  };
  const train::TrainOptions options{.devices = devices,
                                    .workers = workers,
                                    .augment_on = augment_on_of(o.augment_on),
                                    .data_on_device = o.data_on_device,
                                    .steps_per_graph = o.steps_per_graph,
                                    .max_steps = o.steps.value_or(0),
                                    .out = o.out,
                                    .resume = o.resume,
                                    .change_precision = !o.precision.empty(),
                                    .change_compile = !o.compile.empty() || !o.passes.empty(),
                                    .checkpoint = checkpoint,
                                    .compile = mode.compile,
                                    .passes = mode.passes,
                                    .progress = show_progress,
                                    .stage = [&](const char* s, double f) { display.show(s, f); },
                                    .first_step = [&] { startup_ms = milliseconds_since_start(); },
                                    .warn = warn,
                                    .stop = &stop};
  // Does it; where memory or a device gives out, the error names the checkpoint that is kept.
  const auto with_hint = [&](const auto& action) {
    try {
      action();
    } catch (const OutOfMemory& e) {
      throw Error(e.what() + kept_hint(o));
    } catch (const DeviceError& e) {
      throw Error(e.what() + kept_hint(o) + chosen.hint());
    }
  };
  std::optional<train::Trainer> opened;
  try {
    with_hint([&] { opened.emplace(recipe, options); });
  } catch (const Error&) {
    if (stop.load() == 0) throw;
    display.finish();
    say(stderr, "brim: stopped before the first step; nothing was saved\n");
    return 128 + stop.load();
  }
  train::Trainer& trainer = *opened;
  display.finish();
  if (!quiet) {
    say(stdout, "{}: {} images of {}, {} epochs of batch {} on {} in {}, seed {}\n", recipe.name,
        trainer.loader().samples(), recipe.data, recipe.epochs, recipe.batch, names_of(devices),
        recipe.precision, recipe.seed);
    say(stdout, "input: {}\n", trainer.input());
    if (recipe.precision == "tf32" && devices[0].kind != DeviceKind::cuda)
      say(stdout, "tf32 only changes the matrix units of cuda devices; on {} it is fp32\n",
          names_of(devices));
    if (!trainer.resumed_from().empty())
      say(stdout, "going on from {}, after step {}\n", trainer.resumed_from(),
          trainer.steps_before());
    else if (!o.resume.empty())
      say(stdout, "{} holds no checkpoint yet: beginning anew\n", o.resume);
    std::fflush(stdout);
  }
  std::optional<diag::Trace> trace;
  if (!o.trace.empty()) trace.emplace();
  if (o.monitor > 0)
    monitor.emplace(devices,
                    diag::MonitorOptions{o.monitor, [&](const auto& r) { readings.add(r); }});
  train::TrainResult result;
  with_hint([&] { result = trainer.train(); });
  std::optional<diag::MonitorSummary> sensors;
  if (monitor) {
    monitor->stop();
    sensors = monitor->total();
    if (!sensors_told) tell_sensors(*sensors);
    monitor.reset();
  }
  if (!readings.error().empty()) warn(readings.error());
  display.finish();
  const bool trained = !result.stopped;
  // What the training cost, and how to go on, is told even if something cannot be written or the
  // evaluation fails.
  std::exception_ptr failure;
  const auto attempt = [&](const auto& action) {
    try {
      with_hint(action);
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();
    }
  };
  if (trained) attempt([&] { trainer.save(); });
  if (trace) attempt([&] { save_trace(*trace, o.trace, quiet); });
  trace.reset();
  if (trained) attempt([&] { result.test = trainer.test(); });
  display.finish();
  if (trained) result.stopped = !result.test && !failure && stop.load() != 0;

  if (!quiet) {
    say(stdout, "{} steps in {:.1f} s: {:.0f} img/s, {:.0f} us for the median step\n", result.steps,
        result.seconds, result.images_per_s, result.us_per_step);
    if (trained && result.steps == 0)
      say(stdout, "all {} epochs were trained before; --epochs N goes on\n", recipe.epochs);
    if (result.loss_scale > 0) say(stdout, "loss scale {} at the end\n", result.loss_scale);
    if (result.skipped > 0) say(stdout, "{} corrupt samples were left out\n", result.skipped);
    if (result.checkpoint_failures > 0)
      say(stdout, "{} checkpoints could not be written, {} were\n", result.checkpoint_failures,
          result.checkpoints);
    if (result.test)
      say(stdout, "{}", Lines{accuracy_table(*result.test)});
    else if (!result.stopped && !failure)
      say(stdout, "{} has no test split, so the accuracy is unknown\n", recipe.data);
    if (o.explain) say(stdout, "{}", Lines{result.plan});
    for (const std::string& line : trainer.loader().decisions()) say(stdout, "loader: {}\n", line);
    for (const auto& [device, account, recorded] : result.accounts) {
      say(stdout, "where the time of training went on {}, {}\n{}", device.str(),
          how_steps_ran(result.compile), Lines{account.table()});
      if (recorded < 1)
        say(stdout, "  of {:.1f} % of this time there are records, the rest is charged alike\n",
            100 * recorded);
    }
  }
  if (!o.json.empty())
    attempt([&] {
      write_json(result_json(chosen, recipe, result, startup_ms, trainer, sensors), o.json);
    });
  const std::string& folder = o.out.empty() ? o.resume : o.out;
  if (result.stopped && trained)
    say(stderr, "brim: stopped during the evaluation, after the training was finished{}\n",
        folder.empty() ? "" : " and saved to " + folder);
  else if (result.stopped)
    attempt([&] { say(stderr, "brim: {}\n", resume_hint(o, trainer, result)); });
  if (failure) std::rethrow_exception(failure);
  return result.stopped ? 128 + stop.load() : 0;
}

const Register train_command(
    {"train", "train a network from a recipe", [](Arguments args) -> std::function<int()> {
       auto o = std::make_shared<TrainOptions>();
       args.add("recipe", o->recipe,
                "built-in recipe (tutorial-cnn, resnet18, resnet18-cifar) or FILE.toml");
       args.add("--data", o->data, "shapes10, CIFAR-10, MNIST or image folder, or tar");
       args.add("--device", o->device,
                "auto (the GPU with the most free memory, or the CPU; a resumed run stays "
                "where it was), cpu, cuda:N (or gpu:N), sim:N, a list of them, or cuda:all or "
                "sim:all")
           .show_default();
       args.add("--epochs", o->epochs, "passes over the data").range(1, 1000000);
       args.add("--batch", o->batch, "images per step").range(1, 1000000);
       args.add("--workers", o->workers, "loader threads, or auto").show_default();
       args.add("--augment-on", o->augment_on,
                "where pictures are cropped, mirrored and made floats: host, device (from "
                "bytes; the same numbers), or auto: the device if it is one GPU")
           .one_of({"auto", "host", "device"})
           .show_default();
       args.flag("--data-on-device", o->data_on_device,
                 "upload all pictures once and make every batch there");
       args.add("--steps-per-graph", o->steps_per_graph,
                "steps queued as one launch, with --data-on-device; reports, checkpoints and "
                "stops come after whole launches")
           .range(1, 10000)
           .show_default();
       args.add("--lr", o->lr, "learning rate").range(0.0, 1e9);
       args.add("--seed", o->seed, "of weights, order and augmentation")
           .range(int64_t{0}, int64_t{9'000'000'000'000'000'000});
       args.add("--precision", o->precision,
                "of matrix products: fp32, tf32 (as fp32, but for matrix units of cuda), "
                "fp16 (with a loss scale) or bf16; weights stay fp32")
           .one_of({"fp32", "tf32", "fp16", "bf16"});
       args.add("--threads", o->threads, "CPU threads per op").range(1, 4096);
       args.add("--steps", o->steps, "stop after so many steps")
           .range(int64_t{1}, int64_t{1} << 60);
       args.add("--out", o->out, "folder for model.safetensors and checkpoints");
       args.add("--resume", o->resume, "folder of a run to go on with");
       args.add("--checkpoint-every", o->checkpoint_every,
                "steps (100), seconds (60s), or epoch: only at its end")
           .show_default();
       args.add("--keep", o->keep, "newest checkpoints that stay, beside the best one")
           .range(1, 1000000)
           .show_default();
       args.add("--compile", o->compile,
                "replay the step as an optimised plan: on or off (default: on, or as the resumed "
                "run did)")
           .one_of({"on", "off"});
       args.add("--passes", o->passes,
                "passes of the plan: -NAME,.. leaves some out, NAME,.. runs these alone, exact "
                "those that keep every bit");
       args.flag("--explain", o->explain, "print the plan of the step at the end");
       args.add("--memory-limit", o->memory_limit, "of the device, for example 2G");
       args.add("--trace", o->trace, "write a timeline that Perfetto opens");
       args.add("--monitor", o->monitor,
                "seconds between readings of sensors (GPU, CPU load), kept in the --out "
                "folder; 0: none")
           .range(0.0, 3600.0)
           .show_default();
       args.add("--json", o->json, "write the result to a file, or - for standard output");
       return [o, args] {
         o->repeated = repeated_options(args);
         return run(*o);
       };
     }});

}  // namespace
}  // namespace brim::cli
