// How the account sees CUDA devices (diag/device_meter.h: RecordSource). CUPTI's activity records
// tell when each kernel, copy and memset ran; where CUPTI is missing or refuses, one warning says
// so and CUDA events stand behind each launch, and around each copy and each graph. Nothing is
// recorded while nobody measures.
//
// CUPTI's thread hands records over while the device works, buffer by buffer, and tells them to the
// meter there: the host's threads do nothing for it, and no device has to be idle. What the
// last two buffers hold is kept back, as streams may come in turns and a buffer of records is no
// exact cut in time. Events are read when the host has waited for the device anyway and it is idle.
#pragma once

#include <brim/core/stream.h>
#include <brim/diag/account.h>

namespace brim::cuda {

class EventRecords;

/// Work that is queued in the object's scope and is no launch: events around it, where they are
/// what measures. `name` lives as long as the process.
class QueuedWork {
 public:
  QueuedWork(Stream stream, diag::Cause cause, const char* name);
  ~QueuedWork();
  QueuedWork(const QueuedWork&) = delete;
  QueuedWork& operator=(const QueuedWork&) = delete;

 private:
  Stream stream_;
  EventRecords* events_;  // null: events do not measure
};

/// A kernel, or several, was queued for `op` on the current stream of `device`.
void launch_queued(int device, const char* op);
/// What is queued on `stream` from now on waits for an event of a device; it was told so at `at`
/// (ticks).
void stream_waits(Stream stream, int device, uint64_t at);
/// Whether the device has done all it was asked to. Does not wait.
bool all_streams_idle(int device);
/// The host has just waited for work of the device: if events measure it and all streams are idle,
/// what they recorded is told to the meter.
void device_waited(int device);

}  // namespace brim::cuda
