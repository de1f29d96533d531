// Loader: checks options, chooses what was left open, and starts epochs.
#include <brim/data/loader.h>

#include <brim/core/threads.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/pinned_memory.h"
#include "core/runtime.h"
#include "data/file.h"
#include "data/keyed.h"
#include "data/loader/pipeline.h"
#include "data/loader/state.h"
#include "data/source/class_names.h"
#include "data/transform/resample.h"
#include "diag/span.h"

namespace brim::data {
namespace {

// The shape of the batches: known from the options, or that of the first sample that can be
// decoded.
ImageShape find_shape(const Source& source, const TransformPlan& plan, OnError on_error) {
  const ImageShape shape = plan.output_shape(source.image_shape());
  if (shape != ImageShape{}) return shape;
  Image image;
  for (int64_t i = 0;; ++i) {
    try {
      source.read(i, image);
      return with_name([&] { return source.describe(i); },
                       [&] { return plan.output_shape(image.shape()); });
    } catch (const FileError&) {
      if (on_error == OnError::raise || i + 1 == source.size()) throw;
    }
  }
}

// Throws ShapeError where a batch has no bytes, or more than can be counted: 4 a number, and 24 for
// each picture's label and window.
void check_bytes(int64_t batch, const ImageShape& shape) {
  int64_t bytes = 4 + 24;
  bool counted = true;
  for (const int64_t size :
       {batch, int64_t{shape.channels}, int64_t{shape.height}, int64_t{shape.width}})
    counted = counted && size > 0 && !__builtin_mul_overflow(bytes, size, &bytes);
  BRIM_CHECK(
      counted, ShapeError,
      "[loader] batches of {} pictures of {} x {} pixels fit no memory; is the shape that the "
      "source tells right?",
      batch, shape.width, shape.height);
}

// Pictures in memory keep one thread less than busy; decoding leaves one CPU to the training loop.
int choose_workers(const Source& source) {
  const int cpus = available_cpus();
  if (cpus == 1) return source.in_memory() ? 0 : 1;
  return source.in_memory() ? 1 : std::min(cpus - 1, 32);
}

// Enough that every worker has a slot while as many wait, and that small batches are handed over in
// bunches, so that waking a worker is rare.
int choose_ahead(int workers, int64_t batch_bytes) {
  constexpr int64_t kBunch = int64_t{1} << 20;
  const int64_t bunch = std::clamp<int64_t>(kBunch / std::max<int64_t>(batch_bytes, 1), 2, 16);
  return std::max(2 * workers, static_cast<int>(bunch));
}

// As many slots as an eighth of the memory holds, within reason.
int max_slots(int64_t batch_bytes) {
  return static_cast<int>(
      std::clamp<int64_t>(memory_budget() / 4 / std::max<int64_t>(batch_bytes, 1), 2, 64));
}

}  // namespace

Order::Order(int64_t total, const LoaderOptions& options, int64_t epoch)
    : permutation_(total, key64(options.seed, 0x6f726472, static_cast<uint64_t>(epoch))),
      shuffle_(options.shuffle),
      rank_(options.rank),
      world_size_(options.world_size) {}

Loader::State::State(std::shared_ptr<const Source> from, const Transform& how,
                     const LoaderOptions& asked)
    : source(std::move(from)), transform(how), plan(how), wanted(asked), options(asked) {
  BRIM_CHECK(source != nullptr, ValueError, "[loader] no source; open one with data::Source::open");
  BRIM_CHECK(source->size() > 0, ValueError, "[loader] the source has no samples");
  const std::string wrong = wrong_class_names(source->classes());
  BRIM_CHECK(wrong.empty(), ValueError, "[loader] the source's classes: {}", wrong);
  BRIM_CHECK(options.batch > 0, ValueError, "[loader] batch {}: must be at least 1", options.batch);
  BRIM_CHECK(options.workers >= -1 && options.workers <= 1024, ValueError,
             "[loader] workers {}: must be 0 to 1024, or -1 to choose", options.workers);
  BRIM_CHECK(options.ahead >= -1 && options.ahead <= 4096, ValueError,
             "[loader] ahead {}: must be 0 to 4096, or -1 to choose", options.ahead);
  BRIM_CHECK(options.world_size > 0 && options.rank >= 0 && options.rank < options.world_size,
             ValueError, "[loader] rank {} of world_size {}: must be 0 to world_size - 1",
             options.rank, options.world_size);
  check_available(options.target);
  shape = find_shape(*source, plan, options.on_error);
  BRIM_CHECK(shape.channels == 3, ShapeError,
             "[loader] pictures of {} channels; expected 3, sources expand grey ones",
             shape.channels);
  raw_shape = plan.raw_shape(source->image_shape());
  BRIM_CHECK(!options.raw || raw_shape != ImageShape{}, ValueError,
             "[loader] raw batches need pictures of one size before the last crop, and {} has "
             "several; put a Resize in front",
             source->describe(0));
  samples = options.drop_last ? source->size() / options.world_size
                              : (source->size() - 1) / options.world_size + 1;
  batches = options.drop_last ? samples / options.batch : (samples - 1) / options.batch + 1;
  BRIM_CHECK(batches > 0, ValueError,
             "[loader] {} samples make no full batch of {}; make it smaller or keep the last one",
             samples, options.batch);
  if (options.drop_last) samples = batches * options.batch;
  const bool chosen_workers = options.workers < 0, chosen_ahead = options.ahead < 0;
  check_bytes(full_batch(), shape);
  if (options.raw) check_bytes(full_batch(), raw_shape);
  const int64_t bytes = full_batch() * sample_bytes();
  if (chosen_workers) options.workers = choose_workers(*source);
  if (chosen_ahead) options.ahead = choose_ahead(options.workers, bytes);
  const LoaderSizes start{options.workers, slots_at_first()};
  Tuner::Limits limits{start.workers, start.workers, start.slots};
  if (chosen_workers) limits.least_workers = 1, limits.max_workers = available_cpus();
  if (chosen_ahead) limits.max_slots = std::max(start.slots, max_slots(bytes));
  tuner_.emplace(start, limits, [this](const std::string& line) { untold_.push_back(line); });
  tunes_ = tuner_->active();
  observe = [this](const MeasurementWindow& window) {
    LoaderSizes sizes;
    {
      const std::lock_guard lock(mutex_);
      sizes = tuner_->observe(window);
    }
    tell();
    return sizes;
  };
  if (chosen_workers || chosen_ahead)
    untold_.push_back(fmt::format("{} worker{}, {} slots to begin with: {} CPUs, {}", start.workers,
                                  start.workers == 1 ? "" : "s", start.slots, available_cpus(),
                                  source->in_memory() ? "source in memory" : "pictures to decode"));
  tell();
}

int Loader::State::slots_at_first() const {
  if (options.workers > 0) return options.ahead + 2;
  return pinned() ? 2 : 1;  // one is filled while the other is copied
}

Loader::State::~State() {
  if (pinned()) PinnedMemory::of(options.target.kind).release_cached();
}

LoaderSizes Loader::State::sizes() const {
  const std::lock_guard lock(mutex_);
  return tuner_->sizes();
}

void Loader::State::tell() {
  std::vector<std::string> lines;  // told without the mutex: the log may ask the loader
  {
    const std::lock_guard lock(mutex_);
    lines.swap(untold_);
    decisions_.insert(decisions_.end(), lines.begin(), lines.end());
  }
  for (const std::string& line : lines)
    if (options.log) options.log(line);
}

MeasurementWindow Loader::State::take_window() {
  const std::lock_guard lock(mutex_);
  return std::exchange(window_, {});
}

void Loader::State::keep_window(const MeasurementWindow& window) {
  const std::lock_guard lock(mutex_);
  window_ = window;
}

void Loader::State::add_worker_ticks(size_t worker, const WorkerTicks& ticks) {
  const std::lock_guard lock(mutex_);
  if (workers_.size() <= worker) workers_.resize(worker + 1);
  workers_[worker] += ticks;
}

std::vector<WorkerAccount> Loader::State::workers() const {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerAccount> accounts;
  for (const WorkerTicks& ticks : workers_) accounts.push_back(ticks.account());
  return accounts;
}

std::vector<std::string> Loader::State::decisions() const {
  const std::lock_guard lock(mutex_);
  return decisions_;
}

Loader::Loader(std::shared_ptr<const Source> source, const Transform& transform,
               const LoaderOptions& options)
    : state_(std::make_shared<State>(std::move(source), transform, options)) {}

void Loader::check_epoch(int64_t epoch, int64_t first_batch) const {
  BRIM_CHECK(epoch >= 0 && first_batch >= 0 && first_batch <= batches(), ValueError,
             "[loader] epoch {} from batch {}: an epoch has {} batches", epoch, first_batch,
             batches());
}

Epoch Loader::epoch(int64_t epoch, int64_t first_batch) const {
  check_epoch(epoch, first_batch);
  const diag::Span span("loader", diag::Cause::input);
  auto pipeline = std::make_unique<Epoch::Pipeline>(state_, epoch, first_batch);
  pipeline->start();
  state_->next_epoch.store(epoch + 1, std::memory_order_relaxed);
  return Epoch(std::move(pipeline));
}

int64_t Loader::next_epoch() const { return state_->next_epoch.load(std::memory_order_relaxed); }

int64_t Loader::batches() const { return state_->batches; }
int64_t Loader::samples() const { return state_->samples; }

int64_t Loader::sample_at(int64_t epoch, int64_t position) const {
  BRIM_CHECK(position >= 0 && position < samples(), IndexError,
             "[loader] position {} of {} samples", position, samples());
  return Order(state_->source->size(), state_->options, epoch)[position];
}

Tensor Loader::windows(int64_t epoch) const {
  const State& s = *state_;
  BRIM_CHECK(s.options.raw, ValueError, "[loader] windows are known with LoaderOptions::raw");
  BRIM_CHECK(has_windows(), ValueError,
             "[loader] a random step before the last crop changes the pictures in every epoch, so "
             "that they cannot be kept");
  const Order order(s.source->size(), s.options, epoch);
  Tensor rows = Tensor::empty_pinned({s.samples, 4}, DType::i32, s.options.target.kind);
  auto* const row = static_cast<formula::PictureWindow*>(rows.raw());
  for (int64_t p = 0; p < s.samples; ++p) {
    const int64_t sample = order[p];
    row[p] = s.plan.window(sample_key(s.options.seed, epoch, sample), s.raw_shape);
    row[p].picture = static_cast<int32_t>(sample);
  }
  return rows;
}

bool Loader::has_windows() const { return !state_->plan.draws_before_raw(); }

Loader Loader::in_order(int64_t batch) const {
  LoaderOptions options = state_->options;
  options.batch = batch;
  options.shuffle = options.drop_last = false;
  options.rank = 0, options.world_size = 1;
  options.ahead = -1;
  options.raw = true;
  options.log = {};
  return Loader(state_->source, state_->transform, options);
}

Loader Loader::placed(Device target, bool raw) const {
  LoaderOptions options = state_->wanted;
  if (options.target.kind == target.kind && options.raw == raw) return *this;
  options.target = target;
  options.raw = raw;
  return Loader(state_->source, state_->transform, options);
}

const Transform& Loader::transform() const { return state_->transform; }
ImageShape Loader::raw_shape() const { return state_->raw_shape; }
const Source& Loader::source() const { return *state_->source; }
const LoaderOptions& Loader::options() const { return state_->options; }
ImageShape Loader::sample_shape() const { return state_->shape; }
int64_t Loader::skipped() const { return state_->skipped.load(std::memory_order_relaxed); }

int Loader::workers() const { return state_->sizes().workers; }
int Loader::slots() const { return state_->sizes().slots; }
std::vector<std::string> Loader::decisions() const { return state_->decisions(); }
std::vector<WorkerAccount> Loader::worker_accounts() const { return state_->workers(); }

std::string Loader::describe() const {
  const int64_t kib = (state_->full_batch() * state_->sample_bytes() + 1023) / 1024;
  return fmt::format("{} worker{} ({} CPUs, {}), {} slots of {} KiB", workers(),
                     workers() == 1 ? "" : "s", available_cpus(),
                     state_->source->in_memory() ? "source in memory" : "pictures to decode",
                     slots(), kib);
}

}  // namespace brim::data
