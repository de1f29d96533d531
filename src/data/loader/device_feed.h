// What brings a DeviceLoader's batches to its devices: copy_feed.h, resident_feed.h.
#pragma once

#include <cstdint>

#include <brim/data/loader.h>

namespace brim::data {

class DeviceFeed {
 public:
  virtual ~DeviceFeed() = default;

  // As in DeviceEpoch. start() ends what ran before.
  virtual void start(int64_t epoch, int64_t first_batch) = 0;
  virtual Batch* next() = 0;
  virtual void prefetch() {}
  virtual void finish() {}

  // As in DeviceLoader. Only what is resident is asked for steps that find their batch themselves.
  virtual bool take(int64_t /*count*/) { return false; }
  virtual Batch next_in_step() { return {}; }
  virtual int64_t resident_bytes() const { return 0; }
  int64_t skipped() const { return skipped_; }

 protected:
  int64_t skipped_ = 0;
};

}  // namespace brim::data
