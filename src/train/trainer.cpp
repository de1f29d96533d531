// The training loop. Per step it reads nothing from the device: the loss is summed there and read
// once per report.
#include <brim/train/trainer.h>

#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/nn/models.h>
#include <brim/ops/loss.h>
#include <brim/optim/clip.h>
#include <brim/train/weights.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/check.h"
#include "core/runtime.h"
#include "data/file.h"
#include "diag/span.h"
#include "train/build.h"
#include "train/checkpoint.h"
#include "train/metrics.h"
#include "train/step_clock.h"

namespace brim::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A run goes on only with the recipe it began with; how long and from where the data comes may
/// change.
void check_same_recipe(const Recipe& asked, const Recipe& saved, const std::string& folder) {
  Recipe a = asked, b = saved;
  a.epochs = b.epochs;
  a.data = b.data;
  const std::string x = a.toml(), y = b.toml();
  if (x == y) return;
  const auto line = [](const std::string& text, size_t at) {
    const size_t begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  size_t at = 0;
  while (at < std::min(x.size(), y.size()) && x[at] == y[at]) ++at;
  at -= at > 0;
  raise<ValueError>(
      "[resume] {} was trained with '{}', and now it is '{}'; resume with the same recipe and "
      "options, or start anew",
      folder, line(y, at), line(x, at));
}

/// Labels must mean the same as before.
void check_same_classes(const std::vector<std::string>& now, const std::vector<std::string>& saved,
                        const std::string& data, const std::string& folder) {
  if (same_classes(now, saved)) return;
  size_t at = 0;
  while (at < std::min(now.size(), saved.size()) && same_classes({now[at]}, {saved[at]})) ++at;
  const auto name = [&](const std::vector<std::string>& names) {
    return at < names.size() ? "'" + names[at] + "'" : std::string("none");
  };
  raise<ValueError>(
      "[resume] {} was trained on {} classes, and {} has {}: class {} was {} and is {} now; give "
      "the data it was trained on (--data), or start anew",
      folder, saved.size(), data, now.size(), at, name(saved), name(now));
}

}  // namespace

struct Trainer::State {
  Recipe recipe;
  TrainOptions options;
  data::Loader loader;
  std::optional<data::Loader> test_loader;  // empty: there is no such split
  std::unique_ptr<nn::Module> model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Schedule> schedule;
  std::vector<Tensor> parameters;
  std::string out;
  std::optional<data::EmptyFolders> made;  // goes with the run if nothing is put there
  int64_t first_epoch = 0, steps_before = 0;

  State(const Recipe& r, TrainOptions o)
      : recipe(r),
        options(std::move(o)),
        loader(make_loader(r, data::Split::train, true, options.workers, open_progress())) {
    // Now, so that a damaged test split is not found out after hours of training.
    Recipe test = r;
    test.batch = std::max<int64_t>(r.batch, 100);
    try {
      test_loader = make_loader(test, data::Split::test, false, options.workers, open_progress());
    } catch (const data::NoSuchSplit&) {
    }
  }

  data::OpenProgress open_progress() const {
    return [this](double fraction) {
      if (options.stage) options.stage("open", fraction);
      return !stop_asked();
    };
  }

  int64_t planned_steps() const {
    const int64_t all = std::max<int64_t>(0, recipe.epochs - first_epoch) * loader.batches();
    return options.max_steps > 0 ? std::min(options.max_steps, all) : all;
  }
  bool stop_asked() const {
    return options.stop && options.stop->load(std::memory_order_relaxed) != 0;
  }

  /// Returns the loss.
  Tensor step(const data::Batch& batch) {
    const diag::Span span("step", diag::Cause::launch);
    optimizer->zero_grad();
    const Tensor x = batch.x.to(options.device), y = batch.y.to(options.device);
    Tensor loss = cross_entropy((*model)(x), y, {.label_smoothing = recipe.label_smoothing});
    loss.backward();
    if (recipe.optimizer.clip_norm > 0)
      optim::clip_grad_norm_(parameters, recipe.optimizer.clip_norm);
    optimizer->step();
    schedule->step();
    return loss;
  }

  void save(int64_t epochs, int64_t steps) {
    const diag::Span span("checkpoint", diag::Cause::checkpoint);
    save_checkpoint(out, {.epochs = epochs,
                          .steps = steps,
                          .random = Generator::global().state(),
                          .recipe = recipe,
                          .classes = loader.source().classes(),
                          .model = model->state_dict(),
                          .optimizer = optimizer->state_dict(),
                          .schedule = schedule->state_dict()});
  }

  void resume(const std::string& folder) {
    const std::string path = last_checkpoint(folder);
    BRIM_CHECK(!path.empty(), FileError,
               "[resume] {} holds no checkpoint; give the folder that --out named, after an epoch "
               "was finished",
               folder);
    const Checkpoint c = load_checkpoint(path);
    check_same_recipe(recipe, c.recipe, folder);
    check_same_classes(loader.source().classes(), c.classes, recipe.data, folder);
    BRIM_CHECK(recipe.epochs >= c.epochs, ValueError,
               "[resume] {} has {} epochs behind it, more than the {} asked for; to go on, ask for "
               "more than {} (--epochs)",
               folder, c.epochs, recipe.epochs, c.epochs);
    try {
      model->load_state_dict(c.model);
      optimizer->load_state_dict(c.optimizer);
      schedule->load_state_dict(c.schedule);
    } catch (const ValueError& e) {
      raise<FileError>("[resume] {} does not fit the recipe: {}", path, e.what());
    }
    Generator::global().set_state(c.random);
    first_epoch = c.epochs;
    steps_before = c.steps;
  }

  void prepare_out();
  void train_loop(TrainResult& result);
};

Trainer::Trainer(const Recipe& recipe, TrainOptions options) {
  check_recipe(recipe);
  check_available(options.device);
  state_ = std::make_unique<State>(recipe, std::move(options));
  State& s = *state_;
  manual_seed(recipe.seed);
  s.model = nn::make_model(recipe.model,
                           {.classes = static_cast<int64_t>(s.loader.source().classes().size()),
                            .device = s.options.device});
  s.parameters = s.model->parameters();
  s.optimizer = make_optimizer(recipe.optimizer, *s.model);
  s.schedule = make_schedule(recipe, *s.optimizer, s.loader.batches());
  if (!s.options.resume.empty()) s.resume(s.options.resume);
  s.prepare_out();
}

Trainer::~Trainer() = default;
nn::Module& Trainer::model() { return *state_->model; }
const data::Loader& Trainer::loader() const { return state_->loader; }

void Trainer::State::prepare_out() {
  out = options.out.empty() ? options.resume : options.out;
  if (out.empty()) return;
  std::error_code ignored;
  const bool goes_on =
      !options.resume.empty() && std::filesystem::equivalent(out, options.resume, ignored);
  if (!goes_on) {
    BRIM_CHECK(last_checkpoint(out).empty(), FileError,
               "[train] {} holds a checkpoint already; go on from it with --resume {}, or choose "
               "another folder",
               out, out);
    BRIM_CHECK(!std::filesystem::exists(out + "/model.safetensors", ignored), FileError,
               "[train] {} holds a trained network already (model.safetensors); choose another "
               "folder, or move it away",
               out);
  }
  made.emplace(out);
  make_folder(out);
}

void Trainer::State::train_loop(TrainResult& result) {
  LossMeter losses(options.device);
  StepClock clock;
  const int64_t per_epoch = loader.batches();
  const int64_t report_every =
      std::max<int64_t>(1, per_epoch / std::max<int64_t>(1, options.reports_per_epoch));
  Progress p{.epochs = recipe.epochs,
             .steps = planned_steps(),
             .loss = std::numeric_limits<double>::quiet_NaN()};
  auto last_report = Clock::now(), last_tick = last_report;
  int64_t reported_images = 0;
  const auto begin = last_report;
  model->train();

  const auto report = [&] {
    p.loss = losses.read();
    BRIM_CHECK(std::isfinite(p.loss), ValueError,
               "[train] the loss is {} at epoch {} step {}; use a lower learning rate (--lr)",
               p.loss, p.epoch + 1, p.epoch_step);
    result.final_loss = p.loss;
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_report).count();
    p.images_per_s = static_cast<double>(p.images - reported_images) / std::max(seconds, 1e-9);
    last_report = last_tick = now;
    reported_images = p.images;
  };
  const auto tell = [&](bool is_report) {
    if (!options.progress) return;
    const double done = static_cast<double>(p.step);
    p.seconds_left = seconds_since(begin) / done * (static_cast<double>(p.steps) - done);
    p.report = is_report;
    options.progress(p);
  };

  bool more = p.steps > 0 && !stop_asked();
  int64_t epoch = first_epoch;
  for (; more && epoch < recipe.epochs; ++epoch) {
    p.epoch = epoch;
    p.epoch_step = 0;
    bool whole = false;
    data::Epoch batches = [&] {
      const diag::Span span("loader", diag::Cause::input);
      return loader.epoch(epoch);
    }();
    while (more) {
      const data::Batch* batch = nullptr;
      {
        const diag::Span span("loader", diag::Cause::input);
        batch = batches.next();
      }
      whole = !batch;
      if (!batch) break;
      if (p.step == 0 && options.first_step) options.first_step();
      clock.start_step();
      losses.add(step(*batch));
      ++p.step;
      ++p.epoch_step;
      p.images += batch->y.numel();
      more = p.step < p.steps && !stop_asked();
      if (p.epoch_step % report_every == 0 || !more) {
        report();
        tell(true);
      } else if (options.progress && seconds_since(last_tick) >= options.tick_seconds) {
        last_tick = Clock::now();
        tell(false);
      }
    }
    whole = whole || p.epoch_step == per_epoch;
    BRIM_CHECK(p.epoch_step > 0 || !whole, FileError,
               "[train] {}: not one of its {} pictures could be read; give other data (--data), or "
               "set input.on_corrupt to \"raise\" to see what is wrong",
               recipe.data, loader.samples());
    if (whole && p.epoch_step % report_every != 0 && more) report();
    if (whole) ++result.epochs_done;
    if (whole && !out.empty()) save(epoch + 1, steps_before + p.step);
    if (!whole) break;
  }
  clock.end();
  synchronize(options.device);
  result.steps = p.step;
  result.images = p.images;
  result.epochs_done += first_epoch;
  result.seconds = seconds_since(begin);
  result.images_per_s = p.step ? static_cast<double>(p.images) / std::max(result.seconds, 1e-9) : 0;
  if (p.step == 0) result.final_loss = std::numeric_limits<double>::quiet_NaN();
  result.us_per_step = clock.median_us();
  result.skipped = loader.skipped();
  result.stopped = stop_asked();
}

TrainResult Trainer::train() {
  State& s = *state_;
  TrainResult result;
  {
    std::unique_ptr<diag::Accountant> accountant;
    if (s.options.account) accountant = std::make_unique<diag::Accountant>();
    s.train_loop(result);
    if (accountant) result.account = accountant->read();
  }
  if (!result.stopped && !s.out.empty())
    save_weights(s.out + "/model.safetensors", *s.model, s.recipe, s.loader.source().classes());
  return result;
}

std::optional<Evaluation> Trainer::test() {
  const State& s = *state_;
  if (!s.test_loader) return std::nullopt;
  try {
    return evaluate(*s.model, *s.test_loader, s.options.device, [&](double fraction) {
      if (s.options.stage) s.options.stage("evaluate", fraction);
      return !s.stop_asked();
    });
  } catch (const Error&) {
    if (!s.stop_asked()) throw;
    return std::nullopt;
  }
}

TrainResult Trainer::run() {
  TrainResult result = train();
  if (!result.stopped) result.test = test();
  return result;
}

Evaluation evaluate(nn::Module& model, const data::Loader& loader, Device device,
                    const std::function<bool(double)>& progress) {
  const NoGrad guard;
  struct EvalMode {
    nn::Module& model;
    bool training = model.training();
    ~EvalMode() { model.train(training); }
  } const mode{model};
  model.eval();
  AccuracyMeter meter(static_cast<int64_t>(loader.source().classes().size()), device);
  data::Epoch batches = loader.epoch(0);
  while (const data::Batch* batch = batches.next()) {
    meter.add(model(batch->x.to(device)), batch->y.to(device));
    const double done = static_cast<double>(batch->index + 1);
    if (progress && !progress(done / static_cast<double>(loader.batches())))
      raise<Error>("[eval] stopped before the end");
  }
  const Evaluation result = meter.read(loader.source().classes());
  BRIM_CHECK(result.samples > 0, FileError,
             "[eval] not one of the {} pictures could be read, the first being {}; give other data",
             loader.samples(), loader.source().describe(0));
  return result;
}

Recipe checkpoint_recipe(const std::string& folder) {
  const std::string path = last_checkpoint(folder);
  BRIM_CHECK(
      !path.empty(), FileError,
      "[resume] {} holds no checkpoint; give the folder that --out named, after an epoch was "
      "finished",
      folder);
  return load_checkpoint_state(path).recipe;
}

}  // namespace brim::train
