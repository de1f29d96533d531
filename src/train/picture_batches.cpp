#include "train/picture_batches.h"

#include <algorithm>

#include "data/transform/plan.h"
#include "ops/picture/picture_batch.h"

namespace brim::train {

PictureBatches::PictureBatches(const data::Loader& loader, Device device) {
  const data::Normalize& scale = loader.transform().normalize;
  std::copy_n(scale.mean.begin(), 3, options_.mean.begin());
  std::copy_n(scale.std.begin(), 3, options_.std.begin());
  options_.fill = data::TransformPlan(loader.transform()).fill();
  const int64_t n = std::min(loader.options().batch, loader.samples());
  const data::ImageShape shape = loader.sample_shape();
  x_ = Tensor::empty({n, shape.channels, shape.height, shape.width}, DType::f32, device);
  y_ = Tensor::empty({n}, DType::i64, device);
}

const data::Batch& PictureBatches::make(const Tensor& pictures, const Tensor& labels,
                                        const Tensor& windows, Tensor& position, int64_t n,
                                        int64_t advance) {
  // Fresh handles: what the loop does to them (requires_grad, hooks) ends with the batch.
  Shape shape = x_.shape();
  shape[0] = n;
  batch_.x = x_.alias(shape, x_.strides(), 0);
  batch_.y = y_.alias({n}, y_.strides(), 0);
  options_.advance = advance;
  ops::picture_batch(pictures, labels, windows, position, batch_.x, batch_.y, options_);
  return batch_;
}

}  // namespace brim::train
