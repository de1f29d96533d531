#include "backend/sim/stream.h"

#include <utility>

#include "core/start_thread.h"
#include "diag/trace_sink.h"

namespace brim::sim {
namespace {

constexpr size_t kMaxQueued = 1024;  // as deep as a CUDA stream

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

void SimStream::push(Task task) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.size() < kMaxQueued; });
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void SimStream::push(Work work) {
  Task task{.work = std::move(work)};
  if (const diag::DeviceMeter* meter = diag::DeviceMeter::active(device_))
    task.reason = meter->queue_now();
  push(std::move(task));
}

void SimStream::push(std::vector<Work> works) {
  diag::Reason reason;
  if (const diag::DeviceMeter* meter = diag::DeviceMeter::active(device_))
    reason = meter->queue_now();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_.size() < kMaxQueued; });
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
    waited_ = event.cause;
  }
}

void SimStream::run(Task& task) {
  diag::DeviceMeter* meter = diag::DeviceMeter::active(device_);
  const uint64_t begin = diag::ticks();
  task.reason.waited = std::exchange(waited_, diag::Cause::other);
  if (meter) meter->begin(task.work.cause(), task.reason);
  const Pacer::Slot slot = pacer_.reserve(task.work);
  try {
    task.work.run();
  } catch (...) {
    fail(std::current_exception());
  }
  sleep_until(slot.end);
  if (meter) {
    const double us = slot.throttled * 1e6;
    meter->end(task.work.cause(), us > 0 ? static_cast<uint64_t>(us * diag::ticks_per_us()) : 0);
  }
  if (diag::tracing())
    diag::trace_device(device_, id_, task.work.name, task.work.cause(), begin, diag::ticks());
  last_ = task.work.cause();
}

}  // namespace brim::sim
