// How a batch of undressed pictures lies in memory: windows, labels and pixels in one piece, so
// that one copy takes it to a device. Host and device use the same layout.
#pragma once

#include <brim/core/tensor.h>
#include <brim/data/image.h>

namespace brim::data {

struct RawLayout {
  int64_t batch = 0;  ///< of a full batch; a smaller one lies at the same places
  ImageShape shape;   ///< of the pictures

  /// Bytes that hold a batch of `n`.
  int64_t bytes(int64_t n) const { return 24 * batch + n * shape.bytes(); }

  // Views of `bytes` (u8, contiguous) for a batch of `n`.
  Tensor windows(const Tensor& bytes, int64_t n) const;  ///< (n, 4) i32, formula::PictureWindow
  Tensor labels(const Tensor& bytes, int64_t n) const;   ///< (n) i64
  Tensor pixels(const Tensor& bytes, int64_t n) const;   ///< (n, C, H, W) u8
};

}  // namespace brim::data
