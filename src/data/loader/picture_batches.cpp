#include "data/loader/picture_batches.h"

#include <algorithm>

#include "data/transform/normalize.h"
#include "data/transform/plan.h"
#include "ops/picture/picture_batch.h"

namespace brim::data {

PictureBatches::PictureBatches(const Loader& loader, Device device) : device_(device) {
  const std::vector<ChannelScale> scales = channel_scales(loader.transform().normalize, 3);
  for (size_t c = 0; c < 3; ++c) options_.mean[c] = scales[c].mean, options_.std[c] = scales[c].std;
  options_.fill = TransformPlan(loader.transform()).fill();
  const ImageShape shape = loader.sample_shape();
  shape_ = {std::min(loader.options().batch, loader.samples()), shape.channels, shape.height,
            shape.width};
}

void PictureBatches::make(const Tensor& pictures, const Tensor& labels, const Tensor& windows,
                          Tensor& position, int64_t n, int64_t advance, Batch& batch) {
  // Memory for a full batch in any case, so that the allocator gives the same one again.
  batch.x = Tensor::empty(shape_, DType::f32, device_);
  batch.y = Tensor::empty({shape_[0]}, DType::i64, device_);
  if (n != shape_[0]) {
    Shape shape = shape_;
    shape[0] = n;
    batch.x = batch.x.alias(shape, batch.x.strides(), 0);
    batch.y = batch.y.alias({n}, batch.y.strides(), 0);
  }
  options_.advance = advance;
  ops::picture_batch(pictures, labels, windows, position, batch.x, batch.y, options_);
}

}  // namespace brim::data
