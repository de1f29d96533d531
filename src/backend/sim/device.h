// All virtual accelerators of the process: their memory, their streams, their options.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <brim/core/sim.h>
#include <brim/core/stream.h>

#include "backend/sim/address_space.h"
#include "backend/sim/pacer.h"
#include "backend/sim/stream.h"
#include "backend/stream_checker.h"

namespace brim::sim {

struct SimDevice {
  int index = 0;
  std::unique_ptr<AddressSpace> memory;             // made with the first allocation
  std::vector<std::unique_ptr<SimStream>> streams;  // by id; [0] is the default stream
  std::vector<int32_t> shared;                      // ids that create_stream() hands out
  size_t next_stream = 0;                           // of these, once there are enough
  Pacer pacer;
};

class Devices {
 public:
  /// Made on first use and never destroyed; its threads end when the process does.
  static Devices& all();

  SimOptions options();
  void set_options(const SimOptions& options);
  int count();
  std::optional<DeviceProfile> profile();
  int64_t capacity();

  AddressSpace& memory(int device);
  SimStream& stream(const Stream& stream);
  Stream create_stream(int device);
  Stream create_private_stream(int device);
  Pacer& pacer(int device);
  /// Bytes of its memory that are taken.
  int64_t used(int device);
  /// An event that covers what is queued so far.
  std::shared_ptr<StreamEvent> record(SimStream& stream);
  /// Waits on the host for all streams of a device.
  void drain(int device);
  /// drain(), then throws the first error that any of them met.
  void synchronize(int device);
  backend::StreamChecker* checker();  ///< null while it is off
  /// Ends all streams after what they do now. For the end of the process.
  void stop();

 private:
  Devices();
  SimDevice& at(int device);
  std::vector<SimStream*> streams(int device);
  SimStream& add_stream(SimDevice& device);

  std::recursive_mutex mutex_;
  SimOptions options_;
  std::optional<DeviceProfile> profile_;
  std::vector<std::unique_ptr<SimDevice>> devices_;
  backend::StreamChecker checker_;
  std::atomic<bool> checking_{false};
  int streams_ = 0;
};

/// Waits on the host for an event.
void wait_on_host(StreamEvent& event);

}  // namespace brim::sim
