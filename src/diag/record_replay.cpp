#include "diag/record_replay.h"

#include <algorithm>

#include "diag/host_timeline.h"
#include "diag/op_records.h"
#include "diag/trace_sink.h"

namespace brim::diag {
namespace {

/// More than a device's queues can be behind the host, so that later ones tell of work that was
/// told, whatever its correlation's other records.
constexpr uint32_t kKeptNotes = 1 << 14;

}  // namespace

void RecordReplay::note(uint64_t correlation, const QueueNote& note) {
  const auto number = static_cast<uint32_t>(correlation);
  if (notes_.empty() || static_cast<int32_t>(number - newest_note_) > 0) newest_note_ = number;
  notes_[correlation] = note;
}

void RecordReplay::wait_for_peer(uint64_t at, int thread, int stream) {
  constexpr size_t kMax = 1 << 12;
  if (peer_waits_.size() == kMax) peer_waits_.pop_front();
  peer_waits_.push_back({at, thread, stream});
}

bool RecordReplay::take_peer_wait(const QueueNote& note, int stream) {
  return std::erase_if(peer_waits_, [&](const PeerWait& wait) {
           return wait.thread == note.thread && wait.at <= note.at &&
                  (wait.stream < 0 || wait.stream == stream);
         }) > 0;
}

void RecordReplay::restart(uint64_t now) {
  records_.clear();
  notes_.clear();
  peer_waits_.clear();
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

void RecordReplay::begin(const WorkRecord& record) {
  DeviceMeter& meter = DeviceMeter::of(device_);
  const uint64_t at = std::max(record.begin, from_);
  Reason reason;
  const auto found = notes_.find(record.correlation);
  if (found != notes_.end()) {
    reason.queued = std::min(found->second.at, at);
    reason.waited =
        take_peer_wait(found->second, record.stream) ? Cause::peer : found->second.waited;
    reason.scope = scope_of_thread(found->second.thread, found->second.at);
    reason.thread = found->second.thread;
  } else {
    reason.queued = at;
  }
  const Cause charged = reason.charged(record.cause);
  meter.begin_at(at, charged, reason);
  running_.push_back({std::max(record.end, at), charged});
  std::push_heap(running_.begin(), running_.end(),
                 [](const Running& a, const Running& b) { return a.end > b.end; });
  if (tracing())
    trace_device(device_, record.stream, record.name, record.cause, at, std::max(record.end, at));
  if (charged == Cause::compute) op_recorded(device_, record.name, at, std::max(record.end, at));
}

void RecordReplay::replay(uint64_t until) {
  const auto due = std::partition(records_.begin(), records_.end(),
                                  [&](const WorkRecord& r) { return r.begin < until; });
  std::sort(records_.begin(), due,
            [](const WorkRecord& a, const WorkRecord& b) { return a.begin < b.begin; });
  for (auto record = records_.begin(); record != due; ++record) {
    if (record->end <= from_) continue;  // done before the measuring began
    end_until(record->begin);
    begin(*record);
  }
  end_until(until);
  records_.erase(records_.begin(), due);
  if (notes_.size() > 2 * size_t{kKeptNotes})
    std::erase_if(notes_, [&](const auto& n) {
      return newest_note_ - static_cast<uint32_t>(n.first) > kKeptNotes && n.second.at < until;
    });
}

}  // namespace brim::diag
