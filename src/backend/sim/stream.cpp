#include "backend/sim/stream.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/start_thread.h"
#include "diag/op_sink.h"
#include "diag/span.h"
#include "diag/trace_sink.h"

namespace brim::sim {
namespace {

constexpr size_t kMaxQueued = 1024;  // as deep as a CUDA stream

using Clock = Pacer::Clock;

uint64_t ticks_of(double seconds) {
  return static_cast<uint64_t>(static_cast<int64_t>(seconds * 1e6 * diag::ticks_per_us()));
}

/// The tick at which it was, or will be, that time.
uint64_t ticks_at(Clock::time_point at) {
  const double ahead = std::chrono::duration<double>(at - Clock::now()).count();
  return diag::ticks() + ticks_of(ahead);
}

}  // namespace

SimStream::SimStream(Device device, int id, int number, Pacer& pacer)
    : device_(device),
      id_(id),
      number_(number),
      pacer_(pacer),
      thread_(start_thread([this] { return std::thread([this] { loop(); }); })) {}

SimStream::~SimStream() {
  stop();
  thread_.join();
}

void SimStream::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void SimStream::wait_while_full(std::unique_lock<std::mutex>& lock) {
  if (tasks_.size() < kMaxQueued) return;
  const diag::Span span("full queue", diag::Cause::full_queue);
  changed_.wait(lock, [&] { return tasks_.size() < kMaxQueued; });
}

void SimStream::push(Task task) {
  {
    std::unique_lock lock(mutex_);
    wait_while_full(lock);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void SimStream::push(Work work) {
  Task task{.work = std::move(work)};
  if (diag::DeviceMeter::active(device_)) task.reason = diag::DeviceMeter::queue_now();
  push(std::move(task));
}

void SimStream::push(std::vector<Work> works) {
  diag::Reason reason;
  if (diag::DeviceMeter::active(device_)) reason = diag::DeviceMeter::queue_now();
  {
    std::unique_lock lock(mutex_);
    wait_while_full(lock);
    for (Work& work : works) tasks_.push_back(Task{.work = std::move(work), .reason = reason});
  }
  changed_.notify_all();
}

std::shared_ptr<StreamEvent> SimStream::record() {
  auto event = std::make_shared<StreamEvent>();
  event->device = device_;
  push(Task{.record = event});
  return event;
}

void SimStream::wait(std::shared_ptr<StreamEvent> event) {
  if (!event->done.load(std::memory_order_acquire) || event->error)
    push(Task{.wait = std::move(event)});
}

void SimStream::wait_until_done(std::shared_ptr<StreamEvent> event) {
  if (!event->done.load(std::memory_order_acquire)) push(Task{.done = std::move(event)});
}

void SimStream::forget_error() { push(Task{.forget = true}); }

std::exception_ptr SimStream::take_error() {
  const std::lock_guard lock(mutex_);
  failed_ = false;
  return std::exchange(error_, nullptr);
}

void SimStream::loop() {
  for (;;) {
    Task task;
    bool failed = false, stopping = false;
    std::exception_ptr error;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !tasks_.empty() || stopping_; });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      failed = failed_, stopping = stopping_;
      error = error_;
    }
    changed_.notify_all();
    if (task.record) {
      task.record->cause = last_;
      task.record->error = error;
      task.record->at = std::max(task.queued, done_at_);
      task.record->done.store(true, std::memory_order_release);
      task.record->done.notify_all();
    } else if (task.wait) {
      if (!stopping) {
        run_wait(*task.wait);
        if (task.wait->error) fail(task.wait->error);
      }
    } else if (task.done) {
      if (!stopping) run_wait(*task.done);
    } else if (task.forget) {
      (void)take_error();
    } else if (!failed && !stopping) {
      run(task);
    }
  }
}

void SimStream::fail(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  if (!failed_) error_ = error;
  failed_ = true;
}

void SimStream::run_wait(const StreamEvent& event) {
  if (!event.done.load(std::memory_order_acquire)) {
    event.done.wait(false, std::memory_order_acquire);
    // Another stream of this device is no reason: it was that one which worked.
    if (event.device != device_)
      waited_ = event.cause == diag::Cause::communication ? event.cause : diag::Cause::peer;
  }
  done_at_ = std::max(done_at_, event.at);
}

bool SimStream::has_more_work() {
  const std::lock_guard lock(mutex_);
  return !tasks_.empty() && tasks_.front().work.run;
}

void SimStream::run(Task& task) {
  diag::DeviceMeter* meter = diag::DeviceMeter::active(device_);
  task.reason.waited = std::exchange(waited_, diag::Cause::other);
  const diag::Cause charged = task.reason.charged(task.work.cause());
  const bool scoped = charged != task.work.cause();
  const Clock::time_point ready = std::max(task.queued, done_at_);
  const Pacer::Slot slot = pacer_.reserve(task.work, ready, scoped);
  const uint64_t begin = ticks_at(std::min(slot.begin, slot.reserved));
  if (meter) {
    // It could have begun, and was held up by nothing but this machine, which gave no core.
    if (task.reason.waited == diag::Cause::other && slot.begin == slot.reserved &&
        slot.begin > ready + kMostLate)
      task.reason.waited = diag::Cause::stolen;
    meter->begin_at(begin, charged, task.reason);
  }
  try {
    task.work.run();
  } catch (...) {
    fail(std::current_exception());
  }
  done_at_ = pacer_.computed(task.work, slot, scoped);
  const uint64_t end = std::max(begin, ticks_at(done_at_));
  // The next one catches up with what this thread oversleeps; whoever waits for an event cannot.
  has_more_work() ? std::this_thread::sleep_until(done_at_) : sleep_until(done_at_);
  if (meter) meter->end_at(end, charged, ticks_of(slot.throttled));
  if (diag::tracing())
    diag::trace_device(device_, id_, task.work.name, task.work.cause(), begin, end);
  if (diag::profiles_ops() && charged == diag::Cause::compute) {
    const Work& work = task.work;
    try {
      diag::op_ran(device_, {work.name, work.dtype, work.operations, work.bytes}, end - begin,
                   [&] { return work.shapes; });
    } catch (const std::bad_alloc&) {  // a profile may miss it, the stream may not end
    }
  }
  last_ = task.work.cause();
}

}  // namespace brim::sim
