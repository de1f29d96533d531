// Batches of a data set that lives on the device (`--data-on-device`): all pictures are uploaded
// once, as bytes; then a batch is one launch, and nothing crosses the link but the order of an
// epoch, in one copy at its start.
//
// How a step that is captured (in a CUDA graph, say) gets its batch: queue_next() launches
// "picture_batch", which reads where it stands from one number on the device, writes x and y, which
// stay where they are, and moves the number on. All addresses are the same from step to step and
// from epoch to epoch. K steps are {queue_next(), step} K times; they may be captured whole and
// replayed while whole_batches(K) is K. The order of the next epoch is queued by start(), outside
// of what was captured.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include <brim/data/loader.h>

#include "train/feed.h"
#include "train/picture_batches.h"

namespace brim::train {

class ResidentFeed final : public Feed {
 public:
  /// Uploads every picture of the loader, whose LoaderOptions::raw is set; what it takes of its
  /// on_error, order and batch holds here too. `progress` is told how much is there; returning
  /// false ends it with an Error. Throws OutOfMemory, with the sizes, before anything is uploaded;
  /// ValueError where pictures change from epoch to epoch; FileError for a damaged one.
  ResidentFeed(const data::Loader& loader, Device device,
               const std::function<bool(double)>& progress = {});

  void start(int64_t epoch, int64_t first_batch) override;
  const data::Batch* next() override;
  int64_t skipped() const override { return skipped_; }

  /// How many batches of full size come next, one after the other; counts to `most`.
  int64_t whole_batches(int64_t most) const;
  /// The device's part of next() for a full batch, in one launch, and nothing else: for a step that
  /// is recorded, and repeated while whole_batches() says so. After each time pass() counts on the
  /// host. The tensors are those of the batch before it.
  const data::Batch& queue_next();
  void pass(int64_t batches) { at_ += batches; }
  int64_t full_batch() const { return full_; }

  int64_t bytes() const;  ///< on the device

 private:
  void upload(const std::function<bool(double)>& progress);
  /// Takes what cannot be read out of the order of an epoch, and notes where batches begin.
  void leave_out_missing();
  int64_t first_row(int64_t batch) const { return first_rows_[static_cast<size_t>(batch)]; }
  int64_t rows(int64_t batch) const { return first_row(batch + 1) - first_row(batch); }

  const data::Loader loader_;
  const Device device_;
  int64_t pictures_of_source_ = 0, full_ = 0;  // all there are; samples of a full batch
  Tensor pictures_, labels_;                   // (M, C, H, W) u8, (M) i64
  Tensor windows_, position_;                  // see ops::picture_batch
  std::vector<bool> missing_;                  // by sample; empty: none
  PictureBatches batches_;
  Tensor order_;                    // what windows_ holds, on the host
  std::future<Tensor> next_order_;  // of the epoch after this one
  std::vector<int64_t> first_rows_;
  int64_t epoch_ = -1, at_ = 0;
  int64_t skipped_ = 0;
};

}  // namespace brim::train
