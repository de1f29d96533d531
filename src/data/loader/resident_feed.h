// Batches of a data set that lives on the device: all pictures are uploaded once, as bytes; then a
// batch is one launch, and nothing crosses the link but the order of an epoch, in one copy at its
// start.
//
// How a step that is captured (in a CUDA graph, say) gets its batch: next_in_step() launches
// "picture_batch", which reads where it stands from one number on the device, writes x and y, and
// moves the number on. So K steps are {next_in_step(), step} K times; they may be captured whole
// and replayed where take(K) allows it. The order of the next epoch is queued by start(), outside
// of what was captured.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include <brim/core/stream.h>
#include <brim/data/loader.h>

#include "data/loader/device_feed.h"
#include "data/loader/picture_batches.h"

namespace brim::data {

class ResidentFeed final : public DeviceFeed {
 public:
  /// Uploads every picture of the loader, whose LoaderOptions::raw is set; what it says of
  /// on_error, order and batch holds here too. `progress` is told how much is there; returning
  /// false ends it with an Error. Throws OutOfMemory, with the sizes, before anything is uploaded;
  /// ValueError where pictures change from epoch to epoch; FileError for a damaged one.
  ResidentFeed(const Loader& loader, Device device, const std::function<bool(double)>& progress);

  void start(int64_t epoch, int64_t first_batch) override;
  Batch* next() override;
  void finish() override;
  bool take(int64_t count) override;
  Batch next_in_step() override;
  int64_t resident_bytes() const override;

 private:
  void upload(const std::function<bool(double)>& progress);
  /// Takes what cannot be read out of the order of an epoch, or puts what stands in for it there,
  /// and notes where batches begin. Throws FileError where nothing can stand in.
  void leave_out_missing(int64_t epoch);
  bool is_missing(int32_t picture) const {
    return !missing_.empty() && missing_[static_cast<size_t>(picture)];
  }
  /// Counts what `count` batches from the next one on miss.
  void count_lost(int64_t count);
  int64_t first_row(int64_t batch) const { return first_rows_[static_cast<size_t>(batch)]; }
  int64_t rows(int64_t batch) const { return first_row(batch + 1) - first_row(batch); }

  const Loader loader_;
  const Device device_;
  int64_t pictures_of_source_ = 0, full_ = 0;  // all there are; samples of a full batch
  Tensor pictures_, labels_;                   // (M, C, H, W) u8, (M) i64
  Tensor windows_, position_;                  // see ops::picture_batch
  std::vector<bool> missing_;                  // by sample; empty: none
  PictureBatches batches_;
  Batch batch_;                     // as the loop sees it
  Event used_;                      // the last work on all of these, of whatever stream
  Tensor order_;                    // what windows_ holds, on the host
  std::future<Tensor> next_order_;  // of the epoch after this one
  std::vector<int64_t> first_rows_, lost_before_;  // by batch
  int64_t epoch_ = -1, at_ = 0;
};

}  // namespace brim::data
