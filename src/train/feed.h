// Where a loop gets its batches: on its device, in order, epoch by epoch.
#pragma once

#include <cstdint>

#include <brim/data/loader.h>

namespace brim::train {

class Feed {
 public:
  virtual ~Feed() = default;

  /// What comes next is epoch `epoch` from `first_batch` on.
  virtual void start(int64_t epoch, int64_t first_batch) = 0;
  /// The next batch of the epoch, x (N, C, H, W) f32 and y (N) i64 on the device, or null at its
  /// end. Its tensors are written again by the next call, behind what is queued on the current
  /// stream by then. Rethrows what its making threw.
  virtual const data::Batch* next() = 0;
  /// The step on the batch is queued: prepares the next one, where there is a device to keep busy.
  /// Errors show at next().
  virtual void ahead() {}
  /// No more of this epoch is wanted.
  virtual void finish() {}
  /// Samples left out so far, up to the batch handed out last.
  virtual int64_t skipped() const = 0;
};

}  // namespace brim::train
