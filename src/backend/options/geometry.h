// The sizes of one convolution or pooling, worked out once by the op and handed to its kernels.
#pragma once

#include <brim/core/pair.h>
#include <brim/core/shape.h>

namespace brim::backend {

/// x: (n, c, h, w), weight: (o, c / groups, kh, kw), y: (n, o, oh, ow).
struct ConvGeometry {
  int64_t n, c, h, w;
  int64_t o, kh, kw;
  int64_t oh, ow;
  Pair stride, padding, dilation;
  int64_t groups;

  int64_t c_per_group() const { return c / groups; }
  int64_t o_per_group() const { return o / groups; }
  /// Multiply-adds of one pass (forward, dx or dw).
  int64_t work() const { return n * o * oh * ow * c_per_group() * kh * kw; }
  Shape x_shape() const { return {n, c, h, w}; }
  Shape weight_shape() const { return {o, c_per_group(), kh, kw}; }
  Shape y_shape() const { return {n, o, oh, ow}; }
  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

/// x: (n, c, h, w), y: (n, c, oh, ow).
struct PoolGeometry {
  int64_t n, c, h, w;
  int64_t oh, ow;
  Pair kernel, stride, padding, dilation;
  bool count_include_pad = true;  // average only
  friend bool operator==(const PoolGeometry&, const PoolGeometry&) = default;
};

/// max_pool2d numbers the elements of a window row by row, those in the padding included. Its
/// indices are u8 for windows of at most so many elements, else i32.
inline constexpr int64_t kBytePoolWindow = 255;
/// The index of a window that has nothing but padding.
template <class Index>
inline constexpr Index kNoElement = static_cast<Index>(-1);

}  // namespace brim::backend
