// Workers and ring of one epoch (see pipeline.h).
#include "data/loader/pipeline.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/start_thread.h"
#include "diag/span.h"

namespace brim::data {

Epoch::Pipeline::Pipeline(std::shared_ptr<Loader::State> state, int64_t epoch, int64_t first_batch)
    : state_(std::move(state)),
      epoch_(epoch),
      last_(state_->order ? state_->order->batches() : INT64_MAX),
      position_(first_batch),
      behind_(first_batch),
      next_(first_batch),
      idle_noted_(Clock::now()) {
  if (state_->iterable) pass_ = std::make_unique<IterablePass>(*state_, epoch, first_batch);
  if (state_->tunes()) window_ = state_->take_window();
}

Epoch::Pipeline::~Pipeline() {
  const diag::Span span("loader", diag::Cause::input);  // a worker ends with its batch
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  can_work_.notify_all();
  if (pass_) pass_->stop();
  for (std::thread& thread : threads_) thread.join();
  state_->ready.fetch_sub(std::ranges::count_if(line_, [](const Slot* s) { return s->ready; }),
                          std::memory_order_relaxed);
  for (size_t i = 0; i < threads_.size(); ++i) {
    logs_[i].ticks.wall = diag::ticks() - logs_[i].begin;
    try {
      state_->add_worker_ticks(i, logs_[i].ticks);
    } catch (const std::bad_alloc&) {  // nothing is known of it, then
    }
  }
  if (measuring_) window_.idle += idle_seconds_;
  if (state_->tunes()) state_->keep_window(window_);
}

void Epoch::Pipeline::start() {
  const LoaderSizes sizes = state_->sizes();
  const int64_t left = last_ - position_;
  resize({static_cast<int>(std::min<int64_t>(sizes.workers, left)), sizes.slots});
}

void Epoch::Pipeline::resize(LoaderSizes sizes) {
  const bool starting = threads_.empty();
  const int needed = starting ? state_->slots_at_first() : 0;
  kept_ = std::max(sizes.slots, 1);
  while (live_ < kept_) {
    if (retired_.empty()) {
      slots_.push_back(std::make_unique<Slot>());
      retired_.push_back(slots_.back().get());
    }
    Slot& slot = *retired_.back();
    try {
      recycle(slot);
    } catch (const Error&) {  // no memory: the tuner's wishes are none that must be met
      if (live_ < needed) throw;
      clear(slot);
      break;
    }
    retired_.pop_back();
    ++live_;
    const Lock lock(mutex_);
    free_.push_back(&slot);
  }
  int missing = 0;
  {
    const Lock lock(mutex_);
    wanted_ = sizes.workers;
    if (next_ < last_) missing = std::max(wanted_ - running_, 0);
    running_ += missing;
    wake();  // some may have to go
  }
  for (; missing > 0; --missing) {
    try {
      WorkerLog& log = logs_.emplace_back();
      threads_.push_back(
          start_thread([this, &log] { return std::thread([this, &log] { work(log); }); }));
    } catch (const Error&) {  // no more threads: the same
      logs_.pop_back();
      if (threads_.empty()) throw;
      const Lock lock(mutex_);
      running_ -= missing;
      break;
    }
  }
}

void Epoch::Pipeline::let_go(Batch& batch) {
  batch.x = {}, batch.y = {};
  batch.windows = {}, batch.packed = {};
  for (NamedTensor& field : batch.fields) field.tensor = {};
}

void Epoch::Pipeline::clear(Slot& slot) {
  let_go(slot.batch);
  slot.memory.clear();
}

void Epoch::Pipeline::recycle(Slot& slot) {
  let_go(slot.batch);
  slot.ready = false;
  slot.memory.prepare(*state_);
}

void Epoch::Pipeline::give_back() {
  Slot& slot = *handed_;
  if (live_ > kept_) {
    clear(slot);
    slot.ready = false;
    handed_ = nullptr;
    --live_;
    retired_.push_back(&slot);
    return;
  }
  recycle(slot);
  handed_ = nullptr;
  const Lock lock(mutex_);
  free_.push_back(&slot);
}

void Epoch::Pipeline::note_idle(int change) {
  const auto now = Clock::now();
  idle_seconds_ += idle_ * std::chrono::duration<double>(now - idle_noted_).count();
  idle_noted_ = now;
  idle_ = std::clamp(idle_ + change, 0, running_);
}

void Epoch::Pipeline::wake() {
  note_idle(-idle_);  // from now on they are not idle, but on their way
  can_work_.notify_all();
}

std::pair<int64_t, Epoch::Pipeline::Slot*> Epoch::Pipeline::claim() {
  // In the cache is the slot given back last; copies are done of the one given back first.
  const bool oldest = state_->pinned();
  Slot* const slot = oldest ? free_.front() : free_.back();
  oldest ? free_.pop_front() : free_.pop_back();
  line_.push_back(slot);
  return {next_++, slot};
}

void Epoch::Pipeline::finish(Slot& slot, const Scratch& scratch) {
  slot.ready = true;
  state_->ready.fetch_add(1, std::memory_order_relaxed);
  if (slot.ends) next_ = last_;
  making_ = scratch.all;
}

bool Epoch::Pipeline::helps() const {
  constexpr double kSmall = 50;  // us: to sleep and be woken takes some 10
  const bool waits_for_nothing = !pass_ && !state_->pinned() && state_->data->in_memory();
  return waits_for_nothing && !free_.empty() && next_ < last_ &&
         static_cast<double>(making_) <= kSmall * diag::ticks_per_us();
}

void Epoch::Pipeline::help(Lock& lock) {
  const auto [number, slot] = claim();
  lock.unlock();
  fill(number, *slot, scratch_);
  lock.lock();
  finish(*slot, scratch_);
}

void Epoch::Pipeline::work(WorkerLog& log) {
  Scratch scratch;
  WorkerClock clock(log.begin);
  Lock lock(mutex_);
  while (true) {
    bool for_slot = false;
    const auto surplus = [&] { return running_ > wanted_; };
    while (!stop_ && next_ < last_ && free_.empty() && !surplus()) {
      note_idle(1);
      for_slot = true;
      can_work_.wait(lock);
    }
    clock.waited(for_slot);
    if (stop_ || next_ >= last_ || surplus()) {
      --running_;
      clock.read_delay();
      log.ticks += clock.take();
      return;
    }
    const auto [number, slot] = claim();
    lock.unlock();
    fill(number, *slot, scratch);
    clock.made(scratch.reading, scratch.decoding, scratch.copies);
    lock.lock();
    log.ticks += clock.take();
    finish(*slot, scratch);
    if (!awaited_ || line_.front() != slot) continue;
    lock.unlock();  // else the loop wakes to wait for it
    can_take_.notify_one();
    lock.lock();
  }
}

Batch* Epoch::Pipeline::hand_over(Slot& slot) {
  if (pass_) pass_->check_running();  // another may have begun while the loop waited
  ++position_;
  if (slot.error) {
    position_ = last_;
    std::rethrow_exception(std::exchange(slot.error, nullptr));
  }
  state_->skipped.fetch_add(slot.skipped, std::memory_order_relaxed);
  skipped_ += slot.skipped;
  handed_ = &slot;
  if (slot.ends) position_ = last_;
  if (slot.batch.samples.empty()) {
    // An endless data set of which nothing can be read would keep the loop for ever.
    constexpr int64_t kMaxLost = 1000;
    lost_ += slot.skipped;
    if (pass_ && lost_ >= kMaxLost && slot.made.lost) {
      position_ = last_;
      std::rethrow_exception(std::exchange(slot.made.lost, nullptr));
    }
    return nullptr;
  }
  lost_ = 0;
  slot.memory.open(*state_, slot.batch);
  behind_ = slot.batch.index + 1;
  if (pass_) pass_->hand_over(std::move(slot.made.after));
  return &slot.batch;
}

void Epoch::Pipeline::await_first(Lock& lock) {
  const auto ready = [&] { return !line_.empty() && line_.front()->ready; };
  awaited_ = true;
  while (!can_take_.wait_for(lock, state_->patience, ready)) {
    const int64_t sample =
        line_.empty() ? -1 : line_.front()->reading.load(std::memory_order_relaxed);
    if (sample < 0) continue;
    lock.unlock();
    state_->tell_stall(position_, sample);
    lock.lock();
  }
  awaited_ = false;
}

Batch* Epoch::Pipeline::next_inline() {
  const diag::Span span("loader", diag::Cause::input);
  if (handed_ != nullptr) recycle(*handed_);
  Slot& slot = *slots_[inline_turn_];
  inline_turn_ = (inline_turn_ + 1) % slots_.size();
  fill(position_, slot, scratch_);
  return hand_over(slot);
}

Batch* Epoch::Pipeline::next_from_workers() {
  const bool tuning = state_->tunes();
  const auto begin = tuning ? Clock::now() : Clock::time_point();
  if (handed_ != nullptr) give_back();
  Slot* slot = nullptr;
  double waited = 0;
  {
    Lock lock(mutex_);
    // Sleeping workers are woken when half of the slots are free, not for each one: a wake costs
    // more than a small batch. If the loop is about to wait for a batch that nobody has claimed,
    // all of them are free.
    if (idle_ > 0 && 2 * static_cast<int>(free_.size()) >= live_) wake();
    const auto ready = [&] { return !line_.empty() && line_.front()->ready; };
    if (!ready()) {
      const diag::Span span("loader", diag::Cause::input);
      while (!ready() && helps()) help(lock);
      if (!ready()) await_first(lock);
      if (tuning) waited = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    slot = line_.front();
    line_.pop_front();
    state_->ready.fetch_sub(1, std::memory_order_relaxed);
  }
  if (tuning) tune(begin, waited);
  return hand_over(*slot);
}

void Epoch::Pipeline::tune(Clock::time_point now, double waited) {
  if (measuring_) {
    ++window_.batches;
    window_.waited += waited;
    window_.seconds =
        carried_seconds_ + std::chrono::duration<double>(now - window_begin_).count() + waited;
    if (!state_->has_enough_samples(window_)) return;
    {
      const Lock lock(mutex_);
      note_idle(0);
      window_.idle += idle_seconds_;
    }
    resize(state_->observe(window_));
    window_ = {};
  }
  measuring_ = true;
  carried_seconds_ = window_.seconds;
  window_begin_ = Clock::now();
  const Lock lock(mutex_);
  note_idle(0);
  idle_seconds_ = 0;
}

Batch* Epoch::Pipeline::next() {
  if (pass_) pass_->check_running();
  while (position_ < last_) {
    Batch* const batch = threads_.empty() ? next_inline() : next_from_workers();
    if (batch != nullptr) return batch;  // null: every sample was skipped
  }
  if (handed_ != nullptr) let_go(handed_->batch);
  return nullptr;
}

bool Epoch::Pipeline::ready() {
  if (position_ >= last_) return true;
  if (threads_.empty()) return false;
  const Lock lock(mutex_);
  return !line_.empty() && line_.front()->ready;
}

}  // namespace brim::data
