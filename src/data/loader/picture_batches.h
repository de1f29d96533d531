// Batches made on the device from bytes.
#pragma once

#include <brim/data/loader.h>

#include "backend/options/picture_options.h"

namespace brim::data {

class PictureBatches {
 public:
  /// For batches of the loader, whose LoaderOptions::raw is set.
  PictureBatches(const Loader& loader, Device device);

  /// Queues the making of a batch of `n` (see ops::picture_batch) on the current stream, which
  /// moves the position on by `advance`. Its x and y are made anew; the rest of the batch stays.
  void make(const Tensor& pictures, const Tensor& labels, const Tensor& windows, Tensor& position,
            int64_t n, int64_t advance, Batch& batch);

 private:
  backend::PictureOptions options_;
  Device device_;
  Shape shape_;  // of a full batch
};

}  // namespace brim::data
