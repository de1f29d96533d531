#include "backend/cuda/observe/event_records.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/runtime/runtime.h"
#include "core/check.h"
#include "core/thread_id.h"
#include "diag/span.h"

namespace brim::cuda {
namespace {

constexpr size_t kMaxPoints = 1 << 19;  // that wait to be collected

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) != cudaSuccess ||
         status != cudaStreamCaptureStatusNone;
}

}  // namespace

cudaEvent_t EventRecords::take_event() {
  cudaEvent_t event = nullptr;
  if (free_.empty()) {
    BRIM_CUDA(cudaEventCreateWithFlags(&event, cudaEventDefault));
    return event;
  }
  event = free_.back();
  free_.pop_back();
  return event;
}

/// An event's time is a float of milliseconds after the base, so the base must not grow old.
void EventRecords::set_base() {
  if (!base_) base_ = take_event();
  BRIM_CUDA(cudaEventRecord(base_, native({Device::cuda(device_), 0})));
  BRIM_CUDA(cudaEventSynchronize(base_));  // of an idle device: some microseconds
  base_ticks_ = diag::ticks();
}

void EventRecords::start() {
  const std::lock_guard lock(mutex_);
  const DeviceGuard guard(device_);
  set_base();
}

void EventRecords::stop() {
  const std::lock_guard lock(mutex_);
  for (const Point& p : points_) free_.push_back(p.event);
  if (base_) free_.push_back(base_);
  base_ = nullptr;
  points_.clear();
  open_.clear();
  last_ended_.clear();
  for (const cudaEvent_t event : free_) (void)cudaEventDestroy(event);
  free_.clear();
}

/// Does not throw, as callers are in the middle of queueing: what is wrong shows when they wait.
void EventRecords::add(Stream stream, Point point) {
  if (!base_ || is_captured(native(stream))) return;
  if (points_.size() >= kMaxPoints) {
    lost_ += point.work ? 1 : 0;
    return;
  }
  try {
    const DeviceGuard guard(device_);
    point.event = take_event();
    point.stream = stream.id;
    point.thread = thread_id();
    BRIM_CUDA(cudaEventRecord(point.event, native(stream)));
    points_.push_back(point);
  } catch (const Error&) {
    lost_ += point.work ? 1 : 0;
    if (point.event) free_.push_back(point.event);
  }
}

void EventRecords::begun(Stream stream, diag::Cause cause, const char* name) {
  const std::lock_guard lock(mutex_);
  open_[stream.id] = {cause, name, diag::ticks()};
  add(stream, {});
}

void EventRecords::ended(Stream stream, const char* name, uint64_t queued) {
  const std::lock_guard lock(mutex_);
  const auto open = open_.find(stream.id);
  if (open == open_.end()) {
    add(stream, {.work = true, .queued = queued, .name = name});
    return;
  }
  const Open& o = open->second;
  add(stream, {.work = true, .queued = o.queued, .cause = o.cause, .name = o.name});
  open_.erase(open);
}

void EventRecords::waits(Stream stream) {
  const std::lock_guard lock(mutex_);
  add(stream, {});
}

void EventRecords::tell(diag::RecordReplay& replay, uint64_t now) {
  const double per_ms = diag::ticks_per_us() * 1000;
  for (const Point& p : points_) {
    free_.push_back(p.event);
    float ms = 0;
    if (cudaEventElapsedTime(&ms, base_, p.event) != cudaSuccess) {
      (void)cudaGetLastError();
      lost_ += p.work ? 1 : 0;
      continue;
    }
    const auto after = static_cast<uint64_t>(std::max(0.0F, ms) * per_ms);
    uint64_t& last_ended = last_ended_[p.stream];
    // The two clocks agree to some microseconds only: nothing ends before it was queued.
    const uint64_t begin = std::clamp(p.queued, std::min(last_ended, now), now);
    const uint64_t end = std::clamp(base_ticks_ + after, begin, now);
    last_ended = end;
    if (!p.work) continue;
    replay.note(next_, {.at = p.queued, .thread = p.thread});
    replay.add({.cause = p.cause,
                .begin = begin,
                .end = end,
                .correlation = next_++,
                .stream = p.stream,
                .name = p.name});
  }
  points_.clear();
}

int64_t EventRecords::collect(diag::RecordReplay& replay) {
  const std::lock_guard lock(mutex_);
  if (!base_) return std::exchange(lost_, 0);
  tell(replay, diag::ticks());
  try {
    const DeviceGuard guard(device_);
    set_base();
  } catch (const Error&) {  // the device failed: no more records of it
    free_.push_back(std::exchange(base_, nullptr));
  }
  return std::exchange(lost_, 0);
}

}  // namespace brim::cuda
