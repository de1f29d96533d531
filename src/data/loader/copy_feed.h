// Batches of a loader, copied to the devices while the step before them runs.
//
// Each device that works beside the host has two slots of memory and a copy stream. Two events
// guard a slot: the loop's stream waits for `copied`, and the next copy waits for `used`, recorded
// when the loop asks for another batch. On the CPU batches are handed through; virtual accelerators
// without a profile compute with the host's own CPUs, where nothing is gained by copying beside, so
// they copy in line. Raw batches cross as bytes, in one copy, and become floats on the loop's
// stream.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <brim/core/stream.h>
#include <brim/data/loader.h>

#include "data/loader/device_feed.h"
#include "data/loader/picture_batches.h"
#include "data/loader/raw_layout.h"

namespace brim::data {

class CopyFeed final : public DeviceFeed {
 public:
  /// Batches are raw for one device only.
  CopyFeed(const Loader& loader, const std::vector<Device>& devices);

  void start(int64_t epoch, int64_t first_batch) override;
  Batch* next() override;
  void prefetch() override;
  void finish() override;

 private:
  struct Lane {
    Device device;
    std::optional<Stream> copies;  // where batches are copied ahead
  };
  struct Field {
    std::string name;
    Tensor memory;  // for as many samples as it may get
    Shape shape;    // of what is there
    Tensor view() const { return memory.alias(shape, contiguous_strides(shape), memory.offset()); }
  };
  /// A device's memory for one batch, or its part of one.
  struct Part {
    std::vector<Field> fields;
    Tensor bytes;  // instead of them for a raw batch
    int64_t first = 0, count = 0;
    Event copied, used;
  };
  struct Slot {
    std::vector<Part> parts;  // by lane
    int64_t index = 0;
    int64_t skipped = 0;  // in the epoch, up to this batch
    std::vector<int64_t> samples;
  };

  /// Takes the next batch out of the loader; null at the end of the epoch.
  Batch* next_of_loader();
  /// Gives `memory` at least `numel` elements, if it has less or somebody else holds it still.
  void make_room(const Lane& lane, Tensor& memory, int64_t numel, DType dtype);
  /// The same for all that a part of a batch has.
  void make_room(const Batch& batch, const Lane& lane, Part& part);
  /// Elements to have memory for, where the part of a batch has `numel`.
  int64_t capacity_for(int64_t numel, const Part& part) const;
  /// Queues the copy of a batch to a slot.
  void copy(Batch& batch, Slot& slot);
  void copy(const Batch& batch, const Lane& lane, Part& part);
  /// The rows of a batch's tensor that are the part's. Throws ShapeError where it has no such.
  Tensor part_of(const Tensor& tensor, const Batch& batch, const Part& part) const;
  /// Takes the next batch and queues its copy.
  void fetch();
  /// What the loop sees of a slot.
  Batch* open(Slot& slot);
  void open(const Lane& lane, Part& part, Batch& batch);
  /// What is queued on the batch handed out last is all there will be.
  void let_go();
  /// Notes that the epoch has left out so many samples, up to where the loop is.
  void count_skipped(int64_t in_epoch);

  const Loader loader_;
  std::vector<Lane> lanes_;
  const int64_t full_batch_;
  const RawLayout layout_;                  // of raw batches
  std::optional<PictureBatches> pictures_;  // of raw batches
  Tensor position_;                         // of them: the first window
  bool ahead_ = false;                      // on one lane at least

  std::optional<Epoch> epoch_;
  std::array<Slot, 2> slots_;
  size_t turn_ = 0;           // the slot that is filled next
  Slot* ready_ = nullptr;     // fetched and not handed out
  Slot* current_ = nullptr;   // handed out last
  Batch batch_;               // as the loop sees it
  bool fetched_ = false;      // ready_ is what comes next, null for the end
  std::exception_ptr error_;  // instead of it
  int64_t counted_ = 0;       // of the epoch's skipped samples
};

}  // namespace brim::data
