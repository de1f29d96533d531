// Records of a device's work, which arrive late and in any order, told to its meter and to a trace
// in the order of time.
//
// A record of work and the note of the host that queued it share a correlation: the note says when
// and by which thread, so that the time before, when nothing ran, is charged to what that thread
// did. Notes may come before their records or after them. What is told once is final: a record that
// arrives when the meter is further on counts from there only, so replay() must not go beyond a
// time of which all records are here.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include <brim/core/device.h>

#include "diag/device_meter.h"

namespace brim::diag {

/// Something that a device has done. Times are ticks().
struct WorkRecord {
  Cause cause = Cause::compute;  ///< compute, communication or a copy
  uint64_t begin = 0, end = 0;
  uint64_t correlation = 0;  ///< shared by all that one call queued
  int stream = 0;            ///< for traces
  const char* name = "";     ///< for traces; lives as long as the process
};

/// When work was queued, and by which thread (gettid).
struct QueueNote {
  uint64_t at = 0;
  int thread = 0;
  Cause waited = Cause::other;  ///< see Reason
};

/// Of one device. Not for several threads at a time.
class RecordReplay {
 public:
  explicit RecordReplay(Device device) : device_(device) {}

  void add(const WorkRecord& record) { records_.push_back(record); }
  void note(uint64_t correlation, const QueueNote& note);
  /// The thread has told a stream (-1: one that records name otherwise) to wait for another device.
  /// What it queues next is held up by that: Cause::peer.
  void wait_for_peer(uint64_t at, int thread, int stream);
  /// Records that were not told yet.
  size_t size() const { return records_.size(); }

  /// Tells what began before `until`. Of the threads that queued it, the doings of those that
  /// measure are known. Work without a note counts as queued when it began, by the thread that
  /// began to measure last.
  void replay(uint64_t until);
  /// Forgets everything; the meter begins at `now`, and what began earlier begins then.
  void restart(uint64_t now);

 private:
  struct Running {
    uint64_t end;
    Cause cause;
  };
  struct PeerWait {
    uint64_t at;
    int thread, stream;
  };
  void end_until(uint64_t until);
  void begin(const WorkRecord& record);
  /// Whether the thread had told the stream to wait before it queued that.
  bool take_peer_wait(const QueueNote& note, int stream);

  Device device_;
  std::vector<WorkRecord> records_;
  std::unordered_map<uint64_t, QueueNote> notes_;  // by correlation
  uint32_t newest_note_ = 0;                       // its correlation; they grow, and wrap
  std::vector<Running> running_;                   // a heap, the earliest end first
  std::deque<PeerWait> peer_waits_;                // that no work was found for
  uint64_t from_ = 0;
};

}  // namespace brim::diag
