// A tensor as another one, over other memory.
#pragma once

#include <utility>

#include <brim/core/tensor.h>

namespace brim {

/// A tensor of t's sizes, strides and dtype over `storage`, without its history.
inline Tensor with_storage(const Tensor& t, Ref<Storage> storage) {
  Ref<TensorImpl> impl(new TensorImpl);
  impl->shape = t.shape();
  impl->strides = t.strides();
  impl->offset = t.offset();
  impl->dtype = t.dtype();
  impl->contiguous = t.is_contiguous();
  impl->storage = std::move(storage);
  return Tensor(std::move(impl));
}

}  // namespace brim
