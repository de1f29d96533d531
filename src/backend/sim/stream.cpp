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
constexpr double kLateUs = 200;      // no thread takes that long to wake up where a core is free

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
      task.record->at = diag::ticks();
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
}

void SimStream::run(Task& task) {
  diag::DeviceMeter* meter = diag::DeviceMeter::active(device_);
  const uint64_t begin = diag::ticks();
  task.reason.waited = std::exchange(waited_, diag::Cause::other);
  // Queued, with nothing before it, and held up by nothing but this machine, which gave no core.
  const uint64_t ready = meter ? std::max(task.reason.queued, meter->idle_since()) : begin;
  if (task.reason.waited == diag::Cause::other && begin > ready &&
      static_cast<double>(begin - ready) > kLateUs * diag::ticks_per_us())
    task.reason.waited = diag::Cause::stolen;
  const diag::Cause charged = task.reason.charged(task.work.cause());
  if (meter) meter->begin(charged, task.reason);
  const bool scoped = charged != task.work.cause();
  const Pacer::Slot slot = pacer_.reserve(task.work, scoped);
  try {
    task.work.run();
  } catch (...) {
    fail(std::current_exception());
  }
  pacer_.computed(task.work, scoped);
  const std::optional<double> late = sleep_until(slot.end);
  if (meter) {
    const auto ticks = [](double seconds) {
      return seconds > 0 ? static_cast<uint64_t>(seconds * 1e6 * diag::ticks_per_us()) : 0;
    };
    // What this machine made of the pace: the thread slept, and got a core late.
    meter->end(charged, {.throttled = ticks(slot.throttled), .stolen = late ? ticks(*late) : 0});
  }
  if (diag::tracing())
    diag::trace_device(device_, id_, task.work.name, task.work.cause(), begin, diag::ticks());
  if (diag::profiles_ops() && charged == diag::Cause::compute) {
    const Work& work = task.work;
    try {
      diag::op_ran(device_, {work.name, work.dtype, work.operations, work.bytes},
                   diag::ticks() - begin, [&] { return work.shapes; });
    } catch (const std::bad_alloc&) {  // a profile may miss it, the stream may not end
    }
  }
  last_ = task.work.cause();
}

}  // namespace brim::sim
