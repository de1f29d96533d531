// Views of other dtypes over the bytes of a batch.
#include "data/loader/raw_layout.h"

namespace brim::data {
namespace {

Tensor view(const Tensor& bytes, DType dtype, int64_t first_byte, const Shape& shape) {
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->offset = first_byte / static_cast<int64_t>(size_of(dtype));
  impl->dtype = dtype;
  impl->storage = bytes.storage();
  return Tensor(std::move(impl));
}

}  // namespace

Tensor RawLayout::windows(const Tensor& bytes, int64_t n) const {
  return view(bytes, DType::i32, 0, {n, 4});
}

Tensor RawLayout::labels(const Tensor& bytes, int64_t n) const {
  return view(bytes, DType::i64, 16 * batch, {n});
}

Tensor RawLayout::pixels(const Tensor& bytes, int64_t n) const {
  return view(bytes, DType::u8, 24 * batch, {n, shape.channels, shape.height, shape.width});
}

}  // namespace brim::data
