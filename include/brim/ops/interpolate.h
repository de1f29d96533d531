// Images at other sizes.
#pragma once

#include <brim/core/pair.h>
#include <brim/core/tensor.h>

namespace brim {

/// How pixels are found between pixels.
enum class Interpolation : uint8_t {
  nearest,  ///< the nearest pixel
  bilinear  ///< between the four nearest ones
};

/// Options of interpolate().
struct InterpolateOptions {
  Pair size = 0;                                ///< height and width of the result; or 0, and
  double scale = 0;                             ///< by how much it is larger
  Interpolation mode = Interpolation::nearest;  ///< where pixels are taken from
  /// bilinear: the corners' pixels are the corners of both images; else their outer edges are.
  bool align_corners = false;
};

/// x: (N, C, H, W) -> (N, C, OH, OW), floats; what PyTorch's interpolate gives. Gradients of any
/// order. Throws ValueError unless size or scale is given, and neither is below what it can be.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

}  // namespace brim
