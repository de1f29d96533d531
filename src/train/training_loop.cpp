#include "train/training_loop.h"

#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/core/random.h>
#include <brim/core/tf32.h>
#include <brim/ops/binary.h>
#include <brim/train/heat_guard.h>
#include <brim/train/status.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/runtime.h"
#include "diag/span.h"
#include "train/apply_gradients.h"

namespace brim::train {
namespace {

/// Whether the last `count` of so many steps reached a multiple of `every`.
bool passes(int64_t steps, int64_t count, int64_t every) {
  return steps / every != (steps - count) / every;
}

/// Calls f with each tensor that a batch has for a task.
template <class Batch, class F>
void visit_tensors(Batch& batch, F&& f) {
  if (batch.x.defined()) f(batch.x);
  if (batch.y.defined()) f(batch.y);
  for (auto& field : batch.fields) f(field.tensor);
}

/// Where ranks write checkpoints together.
std::optional<CheckpointShards> shards_of(const Trainer::State& state) {
  if (!state.options.checkpoint.sharded || state.world_size() == 1) return std::nullopt;
  return std::optional<CheckpointShards>(std::in_place, *state.options.group, state.out);
}

/// One of so many equal parts of a batch.
data::Batch part_of(const data::Batch& batch, int64_t part, int64_t parts) {
  if (parts == 1) return batch;
  data::Batch some = batch;
  visit_tensors(some, [&](Tensor& tensor) {
    const int64_t samples = tensor.rank() > 0 ? tensor.size(0) : 0;
    BRIM_CHECK(samples > 0 && samples % parts == 0, ValueError,
               "[train] a batch's tensor of shape {} has no {} equal parts of samples; change "
               "Recipe::virtual_ranks",
               tensor.shape().str(), parts);
    tensor = tensor.slice(0, samples / parts * part, samples / parts * (part + 1));
  });
  const auto samples = static_cast<int64_t>(batch.samples.size());
  some.samples.assign(batch.samples.begin() + samples / parts * part,
                      batch.samples.begin() + samples / parts * (part + 1));
  return some;
}

}  // namespace

TrainingLoop::TrainingLoop(Trainer::State& state, Measuring measuring)
    : s_(state),
      at_(state.at),
      per_epoch_(state.train->loader.batches()),
      report_every_(
          state.options.report_every > 0
              ? state.options.report_every
              : std::max<int64_t>(
                    1, per_epoch_ / std::max<int64_t>(1, state.options.reports_per_epoch))),
      skipped_before_(state.at.skipped),
      losses_(state.options.devices[0], state.virtual_ranks),
      sampling_(measuring.sampling),
      feed_(*state.train->feed),
      pruner_(state),
      ops_(measuring.accountant && state.options.devices[0] == state.devices[0],
           state.options.devices[0]),
      shards_(shards_of(state)),
      checkpointer_(shards_ ? shards_->folder() : state.out, state.options.checkpoint,
                    state.at.steps, state.best, state.options.warn, shards_ ? &*shards_ : nullptr),
      progress_{.epochs = state.recipe.epochs, .loss = std::numeric_limits<double>::quiet_NaN()},
      publisher_(state.options.board, state.devices, state.options.devices[0], measuring),
      begin_(Clock::now()),
      last_report_(begin_),
      last_tick_(begin_) {
  const int64_t all = pruner_.epochs_left() * per_epoch_ - at_.batch;
  if (s_.recipe.prune.is_iterative()) progress_.rounds = s_.recipe.prune.rounds;
  progress_.steps = s_.options.max_steps > 0 ? std::min(s_.options.max_steps, all) : all;
  losses_.reset(at_.unreported);
  if (s_.world_size() > 1) {
    control_ = s_.options.group->duplicate();
    s_.stop_agreed = false;
    agreed_at_ = begin_;
  }
  compile_steps();
}

std::vector<data::Batch> TrainingLoop::parts_of(const data::Batch& batch) const {
  const int64_t count = s_.parallel ? s_.parallel->parts() : 1;
  std::vector<data::Batch> parts;
  for (int64_t k = 0; k < count; ++k) parts.push_back(part_of(batch, k, count));
  return parts;
}

Tensor TrainingLoop::imitating(const Tensor& loss, const Tensor& output, const Tensor& x) const {
  const DistillRecipe& d = s_.recipe.distill;
  Tensor wanted;
  {
    const NoGrad scope;
    wanted = (*s_.teacher)(x);
  }
  return loss * (1 - d.weight) + s_.task->imitation_loss(output, wanted, d.temperature) * d.weight;
}

void TrainingLoop::update(std::span<const data::Batch> parts) {
  optim::GradScaler* const scaler = s_.scaler ? &*s_.scaler : nullptr;
  s_.optimizer->zero_grad();
  const auto mean_loss = [&](const data::Batch& part) {
    const Autocast scope(autocast_dtype(s_.recipe));
    const diag::Span span("network", diag::Cause::user);  // it and the task may be one's own
    const Tensor output = (*s_.model)(part.x);
    const Tensor loss = s_.task->loss(output, part, /*training=*/true);
    return s_.teacher ? imitating(loss, output, part.x) : loss;
  };
  const auto backward = [&](const Tensor& value) {
    (scaler ? scaler->scale(value) : value).backward();
  };
  Tensor loss, part_losses;
  if (s_.parallel) {
    loss = s_.parallel->forward_backward(
        [&](int64_t part) { return mean_loss(parts[static_cast<size_t>(part)]); }, backward,
        &part_losses);
  } else {
    loss = mean_loss(parts[0]);
    backward(loss);
  }
  if (s_.recipe.optimizer.clip_norm > 0) pruner_.apply_to_gradients();
  apply_gradients(*s_.optimizer, scaler, s_.parameters, s_.recipe.optimizer.clip_norm);
  pruner_.apply();
  losses_.add(loss, part_losses);
}

void TrainingLoop::step(const data::Batch& batch) {
  const diag::Span span("step", diag::Cause::dispatch);
  std::vector<data::Batch> cut;
  std::span<const data::Batch> parts(&batch, 1);
  if (s_.parallel && s_.parallel->parts() > 1) {
    cut = parts_of(batch);
    parts = cut;
  }
  if (compiled_) {
    // Each part's tensors are inputs of their own, so a plan does not know how many share a batch.
    for (const data::Batch& part : parts)
      visit_tensors(part, [&](const Tensor& tensor) { inputs_.push_back(tensor); });
    plan::Compiler& compiled = keep_gradients_of(batch.index) ? *keeping_ : *compiled_;
    compiled.run(inputs_, [this, &parts](std::span<const Tensor> tensors) {
      std::vector<data::Batch> recorded(parts.begin(), parts.end());
      size_t k = 0;
      for (data::Batch& part : recorded) {
        part.samples.clear();  // a replay would not know others
        part.index = 0;
        visit_tensors(part, [&](Tensor& tensor) { tensor = tensors[k++]; });
      }
      update(recorded);
      return std::vector<Tensor>();
    });
    inputs_.clear();  // what nobody holds, the loader uses again
  } else {
    update(parts);
  }
  losses_.count(1);
  s_.schedule->step();
}

int64_t TrainingLoop::take_steps(data::DeviceEpoch& epoch) {
  if (!resident_) return 0;
  const int64_t count = s_.options.steps_per_graph;
  const int64_t left = per_epoch_ - at_.batch - (keeping_ ? 1 : 0);  // the last is one by itself
  if (std::min(progress_.steps - progress_.step, left) >= count && epoch.take(count)) return count;
  return epoch.take(1) ? 1 : 0;
}

const data::Batch* TrainingLoop::next_batch(data::DeviceEpoch& epoch) {
  if (!s_.options.repeat_batch) return epoch.next();
  if (!repeated_)
    if (const data::Batch* const first = epoch.next()) repeated_ = *first;
  return repeated_ ? &*repeated_ : nullptr;
}

int64_t TrainingLoop::queue_steps(data::DeviceEpoch& epoch) {
  int64_t count = take_steps(epoch);
  const data::Batch* batch = nullptr;
  if (count == 0) {
    batch = next_batch(epoch);
    if (!batch) return 0;
    count = 1;
  }
  if (progress_.step == 0 && s_.options.first_step) {
    const diag::Span span("first step", diag::Cause::user);
    s_.options.first_step();
  }
  clock_.start_steps(count);
  const int64_t full = std::min(s_.train->loader.options().batch, s_.train->loader.samples());
  const int64_t images =
      (batch ? static_cast<int64_t>(batch->samples.size()) : count * full) * s_.world_size();
  if (batch) {
    step(*batch);
    at_.batch = s_.options.repeat_batch ? at_.batch + 1 : batch->index + 1;
  } else {
    const diag::Span span("step", diag::Cause::dispatch);
    auto& resident = keep_gradients_of(at_.batch) ? *resident_keeping_ : *resident_;
    resident.repeat(static_cast<int>(count), [this] { s_.schedule->step(); });
    losses_.count(count);
    at_.batch += count;
  }
  at_.steps += count, at_.epoch_steps += count, progress_.step += count;
  at_.images += images, progress_.images += images;
  return count;
}

std::string TrainingLoop::where_not_finite() const {
  if (!s_.parallel) return "";
  const std::vector<int64_t> finite = losses_.finite_steps();
  const int64_t part = std::ranges::min_element(finite) - finite.begin();
  const int64_t least = finite[static_cast<size_t>(part)];
  if (least == losses_.read().steps) return "";  // the sum of finite ones
  const int64_t step = at_.epoch_steps - losses_.read().steps + least + 1;
  if (std::ranges::count(finite, least) == std::ssize(finite))
    return fmt::format(" (first at step {}, in all parts of the batch at once)", step);
  return fmt::format(" (first at step {}, in part {} of {} of the batch, which {} {} computed)",
                     step, part + 1, finite.size(), s_.rank_word(), part / s_.parallel->parts());
}

void TrainingLoop::check_loss(double loss) const {
  BRIM_CHECK(std::isfinite(loss), ValueError,
             "[train] the loss is {} at epoch {} step {}{}; use a lower learning rate "
             "(OptimizerRecipe::lr){}",
             std::isnan(loss) ? "nan" : fmt::format("{}", loss), at_.epoch + 1, at_.epoch_steps,
             where_not_finite(),
             s_.scaler ? ", or Recipe::precision=bf16, whose range is that of fp32" : "");
}

LossSum TrainingLoop::read_losses() {
  const LossSum sum = losses_.read();
  if (s_.options.group) s_.options.group->check();  // what a GPU waited for may never have come
  return sum;
}

void TrainingLoop::report() {
  const LossSum window = read_losses();
  if (window.steps == 0) return;
  check_loss(window.mean());
  losses_.reset();
  at_.last_loss = progress_.loss = window.mean();
  at_.epoch_reported.sum += window.sum;
  at_.epoch_reported.steps += window.steps;
  const auto now = Clock::now();
  progress_.images_per_s = static_cast<double>(progress_.images - reported_images_) /
                           std::max(seconds(now - last_report_), 1e-9);
  last_report_ = last_tick_ = now;
  reported_images_ = progress_.images;
  if (sampling_) sampling_->border();
}

void TrainingLoop::publish() { publisher_.publish(progress_, feed_, skipped(), checkpointer_); }

bool TrainingLoop::tell_is_due() const {
  return (s_.options.progress || publisher_) &&
         seconds(Clock::now() - last_tick_) >= s_.options.tick_seconds;
}

void TrainingLoop::tell(bool is_report) {
  if (!s_.options.progress && !publisher_) return;
  const double done = static_cast<double>(progress_.step);
  progress_.seconds_left = done > 0 ? seconds(Clock::now() - begin_) / done *
                                          (static_cast<double>(progress_.steps) - done)
                                    : 0;
  progress_.report = is_report;
  progress_.learning_rate = s_.optimizer->lr();
  publish();
  if (is_report) publisher_.publish(ops_.read());
  if (!s_.options.progress) return;
  const diag::Span span("progress", diag::Cause::user);
  s_.options.progress(progress_);
}

void TrainingLoop::save(bool background, std::optional<double> score) {
  const auto make = [&] {
    at_.unreported = read_losses();
    if (at_.unreported.steps > 0) check_loss(at_.unreported.mean());
    at_.skipped = skipped();
    return snapshot_of(s_.snapshot(), background && s_.options.checkpoint.background,
                       shards_ ? &*shards_ : nullptr);
  };
  checkpointer_.save(at_.steps, make, score);
}

bool TrainingLoop::validate(std::optional<double>& score) {
  if (!s_.validation) return true;
  const auto keep = [&] {  // what was trained; the run that goes on from here validates it
    at_.batch = per_epoch_;
    save(/*background=*/false);
  };
  try {
    validation_ = s_.evaluate(s_.validation);
  } catch (...) {
    if (!shards_) keep();  // the others may not have met it, and would not write their parts
    throw;
  }
  if (!validation_) return keep(), false;
  double decisive = validation_->loss;
  score = decisive;
  for (const Evaluation::Value& value : validation_->metrics) {
    if (value.name != s_.decisive_metric) continue;
    decisive = value.value;
    score = value.higher_is_better ? -value.value : value.value;
  }
  if (!std::isfinite(decisive) && s_.options.warn)
    s_.options.warn(
        fmt::format("validation of epoch {}: {} is {}, so the epoch cannot be the best one",
                    at_.epoch + 1, s_.decisive_metric.empty() ? "the loss" : s_.decisive_metric,
                    std::isnan(decisive) ? "nan" : fmt::format("{}", decisive)));
  if (pruner_.is_not_sparse_yet()) {
    progress_.best = false;
  } else {
    progress_.best =
        std::isfinite(*score) && (!std::isfinite(at_.best_score) || *score < at_.best_score);
    if (progress_.best) at_.best_score = *score;
    at_.epochs_since_best = progress_.best ? 0 : at_.epochs_since_best + 1;
  }
  last_report_ = last_tick_ = Clock::now();  // it is no part of the next report's steps
  return true;
}

bool TrainingLoop::run_epoch() {
  pruner_.prune();
  data::DeviceEpoch epoch = feed_.epoch(at_.epoch, at_.batch);
  progress_.epoch = at_.epoch;
  progress_.round = at_.round;
  while (true) {
    const int64_t count = queue_steps(epoch);
    if (count == 0) {  // the epoch's last batches were all corrupt
      BRIM_CHECK(at_.epoch_steps > 0, FileError,
                 "[train] {}: not one of its {} samples could be read; give other data "
                 "(Recipe::data), or "
                 "set input.on_corrupt to \"raise\" to see what is wrong",
                 s_.recipe.data, s_.train->loader.samples());
      report();
      return true;
    }
    progress_.epoch_step = at_.epoch_steps;
    if (!control_ && s_.options.heat && s_.options.heat->calls()) wait_for_heat();
    save_agreed_ = false;
    if (control_ && progress_.step >= next_agreement_) agree();
    const bool whole = at_.batch == per_epoch_;
    if (!whole && more() && !s_.options.repeat_batch) epoch.prefetch();

    bool reported = whole || passes(at_.epoch_steps, count, report_every_);
    if (reported) report();
    ops_.moved_on(progress_.step, reported);
    const bool last = !more();
    if (!whole && (last || save_agreed_ || checkpointer_.due(at_.steps, count)))
      save(/*background=*/!last);
    if (last && !reported) {  // for the user; the run that goes on from here does not know of it
      report();
      reported = true;
    }
    if (whole) return true;  // told once the epoch's checkpoint is kept
    if (reported) {
      tell(true);
    } else if (tell_is_due()) {
      last_tick_ = Clock::now();
      tell(false);
    }
    if (last) return false;
  }
}

void TrainingLoop::run(TrainResult& result) {
  const diag::Span span("train", diag::Cause::dispatch);
  const Tf32 scope(s_.recipe.precision == "tf32");
  s_.model->train();
  // An epoch whose validation was stopped is trained already.
  const auto is_trained = [&] { return at_.batch == per_epoch_; };
  while (at_.epoch < s_.recipe.epochs && !out_of_patience() &&
         (is_trained() || (more() && run_epoch()))) {
    std::optional<double> score = at_.epoch_reported.mean();
    if (!validate(score)) break;
    if (pruner_.is_not_sparse_yet()) score.reset();  // it is no candidate for the best one
    ++at_.epoch;
    at_.batch = at_.epoch_steps = 0;
    at_.epoch_reported = {};
    // Without further steps the round begins when the run goes on: its weights are no result.
    if (more() && pruner_.begin_round()) compile_steps();
    share_skipped();
    save(/*background=*/false, score);  // told once it is kept
    progress_.epoch_done = true;
    progress_.validation = validation_ ? &*validation_ : nullptr;
    tell(true);
    progress_.epoch_done = progress_.best = false;
    progress_.validation = nullptr;
  }
  clock_.end();
  ops_.end();
  (void)checkpointer_.finish();
  share_skipped();
  synchronize(s_.options.devices[0]);
  publish();
  result.seconds = seconds(Clock::now() - begin_);
  result.steps = progress_.step;
  result.images = progress_.images;
  result.total_steps = at_.steps;
  result.total_images = at_.images;
  result.epochs_done = epochs_done();
  result.images_per_s = static_cast<double>(result.images) / std::max(result.seconds, 1e-9);
  result.us_per_step = clock_.median_us();
  result.final_loss = at_.last_loss;
  result.skipped = skipped();
  result.augmented_on_device = feed_.loader().options().raw;
  result.resident_bytes = feed_.resident_bytes();
  if (s_.scaler) result.loss_scale = s_.scaler->get_scale();
  tell_compiled(result);
  result.checkpoints = checkpointer_.written();
  result.checkpoint_failures = checkpointer_.failures();
  result.validation = validation_;
  result.ops = ops_.read();
  result.stopped_early = out_of_patience() && at_.epoch < s_.recipe.epochs;
  result.stopped = s_.stop_asked() && at_.epoch < s_.recipe.epochs && !result.stopped_early &&
                   (s_.options.max_steps == 0 || progress_.step < progress_.steps);
}

int64_t TrainingLoop::epochs_done() const {
  const PruneRecipe& p = s_.recipe.prune;
  const int64_t rounds = at_.round - (p.is_trained ? 1 : 0);
  return at_.epoch + std::max<int64_t>(0, rounds) * (s_.recipe.epochs - p.rewind_epoch);
}

}  // namespace brim::train
