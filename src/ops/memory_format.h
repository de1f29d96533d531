// Activations and weights in their memory format: kernels take them row-major or nhwc, and give the
// same.
#pragma once

#include <brim/core/tensor.h>

namespace brim::ops {

/// nhwc and not also row-major (one channel, or one pixel).
inline bool is_nhwc(const Tensor& t) {
  return t.rank() == 4 && !t.is_contiguous() && t.is_contiguous(MemoryFormat::nhwc);
}

/// Row-major elements without a history.
inline Tensor packed(const Tensor& t) { return t.is_contiguous() ? t : t.detach().contiguous(); }

/// As it is where it is row-major or nhwc, else row-major.
inline Tensor dense(const Tensor& t) { return is_nhwc(t) ? t : packed(t); }

/// A new tensor in the memory format of `like`: nhwc, or else row-major.
inline Tensor empty_in(const Shape& shape, DType dtype, const Tensor& like) {
  Tensor y = Tensor::empty(shape, dtype, like.device());
  return is_nhwc(like) ? y.alias(shape, strides_of(shape, MemoryFormat::nhwc), 0) : y;
}

/// The same values in the memory format of `like`, without a history.
inline Tensor arranged(const Tensor& t, const Tensor& like) {
  return is_nhwc(like) ? t.detach().to(MemoryFormat::nhwc) : packed(t);
}

}  // namespace brim::ops
