// Batches on the device of the training loop, copied there while the step before them runs.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <optional>

#include <brim/core/stream.h>
#include <brim/data/loader.h>

namespace brim::train {

/// Two slots on the device and a stream of its own: while a step works on one slot, the next batch
/// is copied to the other. Events keep a slot from being written before the step that reads it is
/// done. On the CPU batches are handed through; virtual accelerators without a profile compute with
/// the host's own CPUs, where nothing is gained by copying beside, so they copy in line.
class DeviceFeed {
 public:
  DeviceFeed(data::Loader& loader, Device device);

  /// The next batch of `epoch`, on the device, or null at its end; valid until the second call
  /// after this one. The current stream waits for its copy. Rethrows what the loader threw for it.
  const data::Batch* next(data::Epoch& epoch);
  /// The step on the batch is queued: fetches the next one and queues its copy, where there is a
  /// device to keep busy. Errors show at next().
  void ahead(data::Epoch& epoch);

  /// Samples that the loader has left out, up to the batch handed out last.
  int64_t skipped() const { return skipped_; }

 private:
  struct Slot {
    data::Batch batch;  // on the device
    Event copied, used;
  };
  void fetch(data::Epoch& epoch);

  data::Loader& loader_;
  Device device_;
  std::optional<Stream> copies_;  // where batches are copied ahead
  std::array<Slot, 2> slots_;
  size_t turn_ = 0;           // the slot that is filled next
  Slot* ready_ = nullptr;     // fetched and not handed out
  Slot* current_ = nullptr;   // handed out last
  bool fetched_ = false;      // ready_ says what comes next, null for the end
  std::exception_ptr error_;  // instead of it
  int64_t skipped_ = 0, skipped_ahead_ = 0;
};

}  // namespace brim::train
