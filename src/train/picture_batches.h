// Batches made on the device from bytes: memory for one, and the numbers of the last pass.
#pragma once

#include <brim/data/loader.h>

#include "backend/picture_options.h"

namespace brim::train {

class PictureBatches {
 public:
  /// For full batches of the loader, whose LoaderOptions::raw is set.
  PictureBatches(const data::Loader& loader, Device device);

  /// Queues the making of a batch of `n` (see ops::picture_batch) on the current stream, which
  /// moves the position on by `advance`. Its tensors are those of the batch before it.
  const data::Batch& make(const Tensor& pictures, const Tensor& labels, const Tensor& windows,
                          Tensor& position, int64_t n, int64_t advance = 0);
  data::Batch& batch() { return batch_; }

 private:
  backend::PictureOptions options_;
  Tensor x_, y_;       // of a full batch
  data::Batch batch_;  // views of them
};

}  // namespace brim::train
