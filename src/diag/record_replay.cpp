#include "diag/record_replay.h"

#include <unistd.h>

#include <algorithm>

#include "diag/host_timeline.h"
#include "diag/trace_sink.h"

namespace brim::diag {

void RecordReplay::restart(uint64_t now) {
  records_.clear();
  notes_.clear();
  running_.clear();
  from_ = now;
}

void RecordReplay::end_until(uint64_t until) {
  const auto later = [](const Running& a, const Running& b) { return a.end > b.end; };
  while (!running_.empty() && running_.front().end <= until) {
    std::pop_heap(running_.begin(), running_.end(), later);
    DeviceMeter::of(device_).end_at(running_.back().end, running_.back().cause);
    running_.pop_back();
  }
}

void RecordReplay::begin(const WorkRecord& record, int this_thread) {
  DeviceMeter& meter = DeviceMeter::of(device_);
  const uint64_t at = std::max(record.begin, from_);
  Reason reason;
  const auto found = notes_.find(record.correlation);
  if (found != notes_.end()) {
    reason.queued = std::min(found->second.at, at);
    reason.waited = found->second.waited;
  } else {
    reason.queued = at;
  }
  const uint64_t idle = meter.idle_since();
  const bool known = found == notes_.end() || found->second.thread == this_thread;
  if (idle && idle < reason.queued && known && active_timeline)
    reason.host = active_timeline->reasons(idle, reason.queued);
  meter.begin_at(at, record.cause, reason);
  running_.push_back({std::max(record.end, at), record.cause});
  std::push_heap(running_.begin(), running_.end(),
                 [](const Running& a, const Running& b) { return a.end > b.end; });
  if (tracing())
    trace_device(device_, record.stream, record.name, record.cause, at, std::max(record.end, at));
}

void RecordReplay::replay(uint64_t until) {
  static thread_local const int this_thread = gettid();
  const auto due = std::partition(records_.begin(), records_.end(),
                                  [&](const WorkRecord& r) { return r.begin < until; });
  std::sort(records_.begin(), due,
            [](const WorkRecord& a, const WorkRecord& b) { return a.begin < b.begin; });
  for (auto record = records_.begin(); record != due; ++record) {
    if (record->end <= from_) continue;  // done before the measuring began
    end_until(record->begin);
    begin(*record, this_thread);
  }
  end_until(until);
  records_.erase(records_.begin(), due);
  std::erase_if(notes_, [&](const auto& n) { return n.second.at < until; });
}

}  // namespace brim::diag
