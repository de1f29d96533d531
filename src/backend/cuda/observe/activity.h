// What CUDA devices did, and when, as CUPTI's activity records tell it. These are records of time,
// not counters of the hardware, so DCGM and the like keep working beside them.
#pragma once

#include <cstdint>
#include <string>

#include <brim/diag/detail.h>

#include "diag/record_replay.h"

namespace brim::cuda {

/// Takes what the records say; called by several threads.
class ActivitySink {
 public:
  virtual void work(int device, const diag::WorkRecord& record) = 0;
  virtual void queued(uint64_t correlation, const diag::QueueNote& note) = 0;
  /// A record of work of this device came without its times.
  virtual void lost(int device) = 0;
  /// Records that CUPTI had no room for; it does not say of which device.
  virtual void dropped(int64_t count) = 0;
  /// A buffer of records ends here. While devices work, buffers come in the order in which CUPTI
  /// filled them, or nearly.
  virtual void delivered() = 0;

 protected:
  ~ActivitySink() = default;
};

/// A device without a driver is the emulation's; nobody need be warned about that.
inline constexpr const char* kNoDriver = "there is no NVIDIA driver";

/// Records kernels, copies and memsets of all devices, and what graphs consist of. Returns why
/// CUPTI does not, in a few words; empty when it does. Call it only where a device exists.
std::string start_activity(ActivitySink& sink);
/// After start_activity(): records graphs as wholes from now on or, with Detail::nodes, what they
/// consist of. Returns why CUPTI does not; it then goes on as it did. Devices are idle.
std::string change_activity(diag::Detail detail);
/// Records no more and hands over all that was recorded. Devices are idle.
void stop_activity();
/// How often what CUPTI records has changed. A graph that was made ready before such a change has
/// to be made ready again: launched as it is, libcupti 13.0 crashes.
uint64_t activity_changes();
/// What CUPTI is to hand over.
enum class Flush {
  complete,  ///< not the buffers that hold something incomplete, of any device: devices may work
  all,       ///< every buffer: work that is not done yet will be lost, so all devices are idle
};
/// Hands records over, in this thread or another; returns when they have been handed over.
void flush_activity(Flush what);

}  // namespace brim::cuda
