// Batches of a loader on the device of a loop, copied there while the step before them runs.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <optional>

#include <brim/core/stream.h>
#include <brim/data/loader.h>

#include "data/loader/raw_layout.h"
#include "train/feed.h"
#include "train/picture_batches.h"

namespace brim::train {

/// Two slots on the device and a stream of its own: while a step works on one slot, the next batch
/// is copied to the other. Events keep a slot from being written before the step that reads it is
/// done. On the CPU batches are handed through; virtual accelerators without a profile compute with
/// the host's own CPUs, where nothing is gained by copying beside, so they copy in line. Raw
/// batches cross as bytes, in one copy, and become floats on the stream of the loop.
class DeviceFeed final : public Feed {
 public:
  DeviceFeed(data::Loader& loader, Device device);

  void start(int64_t epoch, int64_t first_batch) override;
  const data::Batch* next() override;
  void ahead() override;
  void finish() override;
  int64_t skipped() const override { return skipped_; }

 private:
  struct Slot {
    data::Batch batch;  // on the device; of a raw one all but its number and samples is in bytes
    Tensor bytes;
    int64_t count = 0;
    Event copied, used;
  };
  /// Takes the next batch out of the loader; null at the end of the epoch.
  const data::Batch* take();
  /// Queues the copy of a batch to a slot.
  void copy(const data::Batch& batch, Slot& slot);
  /// What the loop sees of a slot whose copy is done or waited for.
  const data::Batch* open(Slot& slot);
  void fetch();
  /// What is queued on the batch handed out last is all there will be.
  void note_used();

  data::Loader& loader_;
  Device device_;
  std::optional<data::Epoch> epoch_;
  std::optional<Stream> copies_;            // where batches are copied ahead
  std::optional<PictureBatches> pictures_;  // of raw batches
  data::RawLayout layout_;
  Tensor position_;  // 0: the first window of a raw batch
  std::array<Slot, 2> slots_;
  size_t turn_ = 0;           // the slot that is filled next
  Slot* ready_ = nullptr;     // fetched and not handed out
  Slot* current_ = nullptr;   // handed out last
  bool fetched_ = false;      // ready_ says what comes next, null for the end
  std::exception_ptr error_;  // instead of it
  int64_t skipped_ = 0, skipped_ahead_ = 0;
};

}  // namespace brim::train
