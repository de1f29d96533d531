// Loader: checks options, chooses what was left open, and starts epochs.
#include <brim/data/loader.h>

#include <brim/core/threads.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/pinned_memory.h"
#include "core/runtime.h"
#include "data/dataset/get_sample.h"
#include "data/file.h"
#include "data/keyed.h"
#include "data/loader/pipeline.h"
#include "data/loader/state.h"
#include "diag/span.h"

namespace brim::data {
namespace {

// What the first sample is that can be read.
SampleRows find_rows(const Dataset& data, const LoaderOptions& options) {
  Sample sample;
  for (int64_t i = 0;; ++i) {
    try {
      SampleAccess::begin(sample, sample_key(options.seed, 0, i));
      get_sample(data, i, sample);
      break;
    } catch (const FileError&) {
      if (options.on_error == OnError::raise || i + 1 == data.size()) throw;
    }
  }
  BRIM_CHECK(!sample.fields().empty(), ValueError,
             "[loader] {} has no fields; fill it with Sample::make() or set()", data.describe(0));
  return SampleAccess::rows(sample);
}

// Whether the bytes of a batch can be counted.
bool is_countable(int64_t batch, const SampleRows& rows) {
  int64_t all = 0;
  bool counted = true;
  for (const SampleRows::Field& field : rows.fields) {
    auto bytes = static_cast<int64_t>(size_of(field.dtype));
    for (const int64_t size : field.shape)
      counted = counted && size >= 0 && !__builtin_mul_overflow(bytes, size, &bytes);
    counted = counted && !__builtin_mul_overflow(bytes, batch, &bytes) &&
              !__builtin_add_overflow(all, bytes, &all);
  }
  return counted;
}

// Throws ShapeError where a batch has no bytes, or more than can be counted.
void check_bytes(int64_t batch, const SampleRows& rows, const LabelledPictures* pictures) {
  const bool countable = is_countable(batch, rows);
  if (!pictures) {
    BRIM_CHECK(countable, ShapeError,
               "[loader] batches of {} samples like the first one fit no memory; is its shape "
               "right?",
               batch);
    return;
  }
  const ImageShape& shape = pictures->raw ? pictures->raw_shape : pictures->shape;
  BRIM_CHECK(countable && shape.bytes() > 0 && shape.channels > 0 && shape.height > 0, ShapeError,
             "[loader] batches of {} pictures of {} x {} pixels fit no memory; is the shape that "
             "the source tells right?",
             batch, shape.width, shape.height);
}

// Samples in memory keep one thread less than busy; reading leaves one CPU to the training loop.
int choose_workers(const Dataset& data) {
  const int cpus = available_cpus();
  if (cpus == 1) return data.in_memory() ? 0 : 1;
  return data.in_memory() ? 1 : std::min(cpus - 1, 32);
}

const char* whence(const Loader::State& state) {
  if (!state.data) return "samples in sequence";
  if (state.data->in_memory()) return state.pictures ? "source in memory" : "samples in memory";
  return state.pictures ? "pictures to decode" : "samples to read";
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

Loader::State::State(std::shared_ptr<const Source> from, const Transform& how,
                     const LoaderOptions& asked)
    : State(std::make_shared<const LabelledPictures>(std::move(from), how, asked.raw,
                                                     asked.on_error != OnError::raise),
            asked) {}

Loader::State::State(std::shared_ptr<const LabelledPictures> from, const LoaderOptions& asked)
    : State(from, from, asked) {}

Loader::State::State(std::shared_ptr<const Dataset> from, const LoaderOptions& asked)
    : State(from, nullptr, asked) {}

Loader::State::State(std::shared_ptr<const Dataset> from,
                     std::shared_ptr<const LabelledPictures> as_pictures,
                     const LoaderOptions& asked)
    : data(std::move(from)), pictures(std::move(as_pictures)), wanted(asked), options(asked) {
  BRIM_CHECK(data != nullptr && data->size() > 0, ValueError,
             "[loader] a data set that is null or has no samples");
  check_options();
  order = BatchOrder::make(*data, options);
  rows = pictures ? pictures->rows() : find_rows(*data, options);
  check_bytes(full_batch(), rows, pictures.get());
  choose_sizes(choose_workers(*data), full_batch() * sample_bytes());
}

Loader::State::State(std::shared_ptr<IterableSource> from, const LoaderOptions& asked)
    : iterable(std::move(from)), wanted(asked), options(asked) {
  check_options();
  BRIM_CHECK(options.on_error != OnError::replace, ValueError,
             "[loader] no sample of iterable data can be asked for to stand in for another; use "
             "OnError::skip");
  if (!options.collate) options.collate = stack;
  // Nothing is read before an epoch begins: a pipe's first sample would be lost to it. A batch is
  // taken to be of some size.
  constexpr int64_t kBytes = int64_t{256} << 10;
  choose_sizes(iterable->maps.empty() ? 1 : std::clamp(available_cpus() - 1, 1, 32), kBytes);
}

void Loader::State::check_options() const {
  BRIM_CHECK(options.batch > 0, ValueError, "[loader] batch {}: must be at least 1", options.batch);
  BRIM_CHECK(options.workers >= -1 && options.workers <= 1024, ValueError,
             "[loader] workers {}: must be 0 to 1024, or -1 to choose", options.workers);
  BRIM_CHECK(options.ahead >= -1 && options.ahead <= 4096, ValueError,
             "[loader] ahead {}: must be 0 to 4096, or -1 to choose", options.ahead);
  BRIM_CHECK(options.world_size > 0 && options.rank >= 0 && options.rank < options.world_size,
             ValueError, "[loader] rank {} of world_size {}: must be 0 to world_size - 1",
             options.rank, options.world_size);
  BRIM_CHECK(options.multiple_of > 0, ValueError, "[loader] multiple_of {}: must be at least 1",
             options.multiple_of);
  BRIM_CHECK(options.multiple_of == 1 || (!iterable && !options.buckets), ValueError,
             "[loader] multiple_of is for samples in one line: not for iterable data and buckets");
  BRIM_CHECK(pictures || !options.raw, ValueError,
             "[loader] raw batches are of pictures with labels; leave `raw` out");
  BRIM_CHECK(!options.raw || !options.collate, ValueError,
             "[loader] raw batches are stacked; leave `collate` out");
  check_available(options.target);
}

void Loader::State::choose_sizes(int workers, int64_t bytes) {
  const bool chosen_workers = options.workers < 0, chosen_ahead = options.ahead < 0;
  if (chosen_workers) options.workers = workers;
  if (chosen_ahead) options.ahead = choose_ahead(options.workers, bytes);
  const LoaderSizes start{options.workers, slots_at_first()};
  Tuner::Limits limits{start.workers, start.workers, start.slots};
  if (chosen_workers) limits.least_workers = 1, limits.max_workers = available_cpus();
  if (chosen_ahead && data) limits.max_slots = std::max(start.slots, max_slots(bytes));
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
                                  whence(*this)));
  tell();
}

const BatchOrder& Loader::State::known_order() const {
  BRIM_CHECK(order, ValueError,
             "[loader] an iterable data set does not know its samples ahead, so there are no "
             "batches(), samples(), sample_at() and dataset(); count batches as they come");
  return *order;
}

int64_t Loader::State::sample_bytes() const {
  int64_t bytes = 0;
  for (const SampleRows::Field& field : rows.fields) bytes += field.bytes;
  return bytes;
}

const LabelledPictures& Loader::State::checked_pictures() const {
  BRIM_CHECK(pictures, ValueError,
             "[loader] this loader serves a data set of tensors, not pictures with labels");
  return *pictures;
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

void Loader::State::tell_stall(int64_t number, int64_t sample) const {
  const std::string line =
      fmt::format("[loader] the loop has waited {:.0f} s for batch {}: a worker is reading {}",
                  std::chrono::duration<double>(patience).count(), number,
                  data ? data->describe(sample)
                       : fmt::format("sample {} of {}", sample, iterable->stream->describe()));
  if (options.log)
    options.log(line);
  else
    fmt::print(stderr, "brim: {}\n", line);
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

Loader::Loader(std::shared_ptr<const Dataset> data, const LoaderOptions& options)
    : state_(std::make_shared<State>(std::move(data), options)) {}

Loader::Loader(std::shared_ptr<IterableDataset> data, const LoaderOptions& options)
    : Loader(std::make_shared<State>(std::make_shared<IterableSource>(std::move(data), options),
                                     options)) {}

Loader::Loader(std::shared_ptr<State> state) : state_(std::move(state)) {}

void Loader::check_epoch(int64_t epoch, int64_t first_batch) const {
  if (is_iterable()) {
    BRIM_CHECK(epoch >= 0 && first_batch >= 0 && first_batch <= INT64_MAX / state_->options.batch,
               ValueError, "[loader] epoch {} from batch {}: both must be 0 or more", epoch,
               first_batch);
    return;
  }
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

bool Loader::is_iterable() const { return state_->iterable != nullptr; }
int64_t Loader::batches() const { return state_->known_order().batches(); }
int64_t Loader::samples() const { return state_->known_order().samples(); }

int64_t Loader::sample_at(int64_t epoch, int64_t position) const {
  BRIM_CHECK(position >= 0 && position < samples(), IndexError,
             "[loader] position {} of {} samples", position, samples());
  BRIM_CHECK(state_->order->is_line(), ValueError,
             "[loader] batches of buckets are not cut from one line; see Batch::samples");
  return Order(*state_->data, state_->options, samples(), epoch)[position];
}

Tensor Loader::windows(int64_t epoch) const {
  const State& s = *state_;
  BRIM_CHECK(s.options.raw, ValueError, "[loader] windows are known with LoaderOptions::raw");
  BRIM_CHECK(has_windows(), ValueError,
             "[loader] a random step before the last crop changes the pictures in every epoch, so "
             "that they cannot be kept");
  const LabelledPictures& pictures = *s.pictures;
  Tensor rows = Tensor::empty_pinned({samples(), 4}, DType::i32, s.options.target.kind);
  auto* const row = static_cast<formula::PictureWindow*>(rows.raw());
  for (int64_t p = 0; p < samples(); ++p) {
    const int64_t sample = sample_at(epoch, p);
    row[p] = pictures.plan.window(sample_key(s.options.seed, epoch, sample), pictures.raw_shape);
    row[p].picture = static_cast<int32_t>(sample);
  }
  return rows;
}

bool Loader::has_windows() const { return !state_->checked_pictures().plan.draws_before_raw(); }

Loader Loader::in_order(int64_t batch) const {
  LoaderOptions options = state_->options;
  options.batch = batch;
  options.shuffle = options.drop_last = false;
  options.rank = 0, options.world_size = 1, options.multiple_of = 1;
  options.ahead = -1;
  options.raw = true;
  if (options.on_error == OnError::replace) options.on_error = OnError::skip;
  options.log = {};
  options.sampler = nullptr;
  options.buckets.reset();
  const LabelledPictures& pictures = state_->checked_pictures();
  return Loader(pictures.source, pictures.transform, options);
}

Loader Loader::placed(Device target, bool raw) const {
  LoaderOptions options = state_->wanted;
  if (options.target.kind == target.kind && options.raw == raw) return *this;
  options.target = target;
  options.raw = raw;
  return with(options);
}

Loader Loader::with_workers(std::optional<int> workers) const {
  LoaderOptions options = state_->wanted;
  if (workers) options.workers = *workers;
  return with(options);
}

Loader Loader::with(const LoaderOptions& options) const {
  if (is_iterable()) return Loader(std::make_shared<State>(state_->iterable, options));
  if (!has_pictures()) return Loader(state_->data, options);
  return Loader(state_->pictures->source, state_->pictures->transform, options);
}

const Dataset& Loader::dataset() const {
  (void)state_->known_order();
  return *state_->data;
}
bool Loader::has_pictures() const { return state_->pictures != nullptr; }
const Transform& Loader::transform() const { return state_->checked_pictures().transform; }
ImageShape Loader::raw_shape() const { return state_->checked_pictures().raw_shape; }
const Source& Loader::source() const { return *state_->checked_pictures().source; }
const LoaderOptions& Loader::options() const { return state_->options; }
const Collate& Loader::collate() const { return state_->wanted.collate; }
ImageShape Loader::sample_shape() const { return state_->checked_pictures().shape; }
int64_t Loader::skipped() const { return state_->skipped.load(std::memory_order_relaxed); }

int Loader::workers() const { return state_->sizes().workers; }
int Loader::slots() const { return state_->sizes().slots; }
int64_t Loader::ready_batches() const { return state_->ready.load(std::memory_order_relaxed); }
std::vector<std::string> Loader::decisions() const { return state_->decisions(); }
std::vector<WorkerAccount> Loader::worker_accounts() const { return state_->workers(); }

std::string Loader::describe() const {
  std::string text =
      fmt::format("{} worker{} ({} CPUs, {}), {} slots", workers(), workers() == 1 ? "" : "s",
                  available_cpus(), whence(*state_), slots());
  const int64_t bytes = state_->full_batch() * state_->sample_bytes();
  if (!is_iterable()) text += fmt::format(" of {} KiB", (bytes + 1023) / 1024);
  return text;
}

}  // namespace brim::data
