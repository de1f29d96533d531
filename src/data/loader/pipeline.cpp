// Workers and ring of one epoch (see pipeline.h).
#include "data/loader/pipeline.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "data/transform/resample.h"
#include "diag/span.h"

namespace brim::data {

Epoch::Pipeline::Pipeline(std::shared_ptr<Loader::State> state, int64_t epoch, int64_t first_batch)
    : state_(std::move(state)),
      epoch_(epoch),
      order_(state_->source->size(), state_->options, epoch),
      last_(state_->batches),
      slots_(state_->options.workers == 0 ? 1 : static_cast<size_t>(state_->options.ahead) + 2),
      position_(first_batch),
      next_(first_batch),
      released_(first_batch) {
  for (Slot& slot : slots_) recycle(slot);
}

Epoch::Pipeline::~Pipeline() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  can_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Epoch::Pipeline::start() {
  const int64_t useful = std::min<int64_t>(state_->options.workers, last_ - position_);
  for (int64_t i = 0; i < useful; ++i) threads_.emplace_back([this] { work(); });
}

void Epoch::Pipeline::recycle(Slot& slot) {
  slot.batch.x = {};
  slot.batch.y = {};
  slot.ready = -1;
  // The loop may have kept a tensor, or a view or a graph that holds one: then the memory is
  // theirs.
  const auto ours = [](const Tensor& tensor) {
    return tensor.defined() && tensor.storage()->use_count() == 1;
  };
  const ImageShape& shape = state_->shape;
  const int64_t n = std::min(state_->options.batch, state_->samples);
  if (!ours(slot.x)) slot.x = Tensor::empty({n, shape.channels, shape.height, shape.width});
  if (!ours(slot.y)) slot.y = Tensor::empty({n}, {.dtype = DType::i64});
}

void Epoch::Pipeline::add_sample(int64_t sample, Slot& slot, Scratch& scratch) {
  const Source& source = *state_->source;
  const uint64_t key = sample_key(state_->options.seed, epoch_, sample);
  const auto at = static_cast<int64_t>(slot.batch.samples.size());
  float* const to = static_cast<float*>(slot.x.raw()) + at * state_->shape.bytes();
  const auto apply = [&](const ImageView& view) {
    with_name([&] { return source.describe(sample); },
              [&] { state_->plan.apply(view, key, state_->shape, to, scratch.transform); });
  };
  if (const ImageView view = source.view(sample)) {
    apply(view);
  } else if (const auto file = source.file(sample, scratch.file); !file.empty()) {
    state_->plan.apply_file(file, source.describe(sample), key, state_->shape, to,
                            scratch.transform);
  } else {
    source.read(sample, scratch.image);
    apply(scratch.image);
  }
  static_cast<int64_t*>(slot.y.raw())[at] = source.label(sample);
  slot.batch.samples.push_back(sample);
}

void Epoch::Pipeline::fill(int64_t number, Slot& slot, Scratch& scratch) noexcept {
  slot.batch.samples.clear();
  slot.skipped = 0;
  slot.error = nullptr;
  try {
    const int64_t first = number * state_->options.batch;
    const int64_t count = std::min(state_->options.batch, state_->samples - first);
    slot.batch.samples.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t sample = order_[first + i];
      if (state_->options.on_error == OnError::raise) {
        add_sample(sample, slot, scratch);
        continue;
      }
      try {
        add_sample(sample, slot, scratch);
      } catch (const FileError&) {
        ++slot.skipped;
      }
    }
    slot.batch.index = number;
  } catch (...) {
    slot.error = std::current_exception();
  }
}

void Epoch::Pipeline::work() {
  Scratch scratch;
  Lock lock(mutex_);
  while (true) {
    while (!stop_ && next_ < last_ && next_ >= released_ + static_cast<int64_t>(slots_.size())) {
      ++idle_;
      can_work_.wait(lock);
      --idle_;
    }
    if (stop_ || next_ >= last_) return;
    const int64_t number = next_++;
    Slot& slot = slot_of(number);
    lock.unlock();
    fill(number, slot, scratch);
    lock.lock();
    slot.ready = number;
    if (awaited_ == number) can_take_.notify_one();
  }
}

Batch* Epoch::Pipeline::hand_over(Slot& slot) {
  ++position_;
  if (slot.error) {
    position_ = last_;
    std::rethrow_exception(std::exchange(slot.error, nullptr));
  }
  state_->skipped.fetch_add(slot.skipped, std::memory_order_relaxed);
  handed_ = &slot;
  const auto n = static_cast<int64_t>(slot.batch.samples.size());
  if (n == 0) return nullptr;
  // Fresh handles: what the loop does to its tensors (requires_grad, hooks) ends with them.
  const ImageShape& shape = state_->shape;
  slot.batch.x = slot.x.alias({n, shape.channels, shape.height, shape.width}, slot.x.strides(), 0);
  slot.batch.y = slot.y.alias({n}, slot.y.strides(), 0);
  return &slot.batch;
}

Batch* Epoch::Pipeline::next_inline() {
  const diag::Span span("loader", diag::Cause::input);
  Slot& slot = slots_[0];
  if (handed_ != nullptr) recycle(slot);
  fill(position_, slot, scratch_);
  return hand_over(slot);
}

Batch* Epoch::Pipeline::next_from_workers() {
  if (handed_ != nullptr) recycle(*handed_);
  Slot& slot = slot_of(position_);
  {
    Lock lock(mutex_);
    released_ = position_;
    // Sleeping workers are woken when half of the ring is free, not for each slot: a wake costs
    // more than a small batch. If the loop is about to wait for a batch that nobody has claimed,
    // all of it is free.
    const int64_t room = released_ + static_cast<int64_t>(slots_.size()) - next_;
    const bool wake = idle_ > 0 && 2 * room >= static_cast<int64_t>(slots_.size());
    if (wake) can_work_.notify_all();
    if (slot.ready != position_) {
      const diag::Span span("loader", diag::Cause::input);
      awaited_ = position_;
      while (slot.ready != position_) can_take_.wait(lock);
      awaited_ = -1;
    }
  }
  return hand_over(slot);
}

Batch* Epoch::Pipeline::next() {
  while (position_ < last_) {
    Batch* const batch = threads_.empty() ? next_inline() : next_from_workers();
    if (batch != nullptr) return batch;  // null: every sample was skipped
  }
  if (handed_ != nullptr) handed_->batch.x = {}, handed_->batch.y = {};
  return nullptr;
}

Epoch::Epoch(std::unique_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
Epoch::Epoch(Epoch&&) noexcept = default;
Epoch& Epoch::operator=(Epoch&&) noexcept = default;
Epoch::~Epoch() = default;

Batch* Epoch::next() { return pipeline_->next(); }

}  // namespace brim::data
