// What happens to a picture between the file and the batch: crops, flips and resizes on 8-bit
// pixels, then one pass to f32 planes. Random choices depend on (seed, epoch, sample) alone.
#pragma once

#include <array>
#include <cstdint>
#include <variant>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/data/image.h>

namespace brim::data {

/// Bilinear with anti-aliasing; of grey and RGB of 8 bits the pixels of PIL and torchvision.
/// Without `width`, the shorter side becomes `height` and the other follows.
struct Resize {
  ///@{
  /// Of the result, in pixels.
  int height = 0;
  int width = 0;
  ///@}
};

/// The middle height x width (square without `width`); a smaller picture is padded with 0.
struct CenterCrop {
  ///@{
  /// Of the result, in pixels.
  int height = 0;
  int width = 0;
  ///@}
};

/// A window of height x width (square without `width`) anywhere in the picture, after `padding`
/// pixels of value `fill` on each side. Throws ShapeError if the padded picture is smaller.
struct RandomCrop {
  ///@{
  /// Of the result, in pixels.
  int height = 0;
  int width = 0;
  ///@}
  int padding = 0;   ///< pixels that are added at each side before
  uint8_t fill = 0;  ///< value of these pixels
};

/// A part of random size, shape and place, resized to height x width (square without `width`) as
/// torchvision does it: its area is a fraction of the picture's from `scale`, its width over its
/// height comes from `ratio`, evenly in the logarithm (Szegedy et al. 2014, arXiv 1409.4842).
struct RandomResizedCrop {
  ///@{
  /// Of the result, in pixels.
  int height = 0;
  int width = 0;
  ///@}
  std::array<double, 2> scale = {0.08, 1.0};  ///< area of the part, as a share of the picture's
  std::array<double, 2> ratio = {3.0 / 4.0, 4.0 / 3.0};  ///< width over height of the part
  /// Where this is the first step and the part is at least twice as large as the result, a JPEG is
  /// decoded at 1/2, 1/4 or 1/8 of its size, from the low frequencies of its blocks. That is
  /// faster; pixels differ slightly from those of a whole decode and still depend on (seed, epoch,
  /// sample) alone. False: exactly the pixels of decoding all and resizing.
  bool scaled_decode = true;
};

/// Mirrors left and right with probability `p`.
struct HorizontalFlip {
  double p = 0.5;  ///< probability
};

/// What a transform does to a picture, step by step.
using TransformStep =
    std::variant<Resize, CenterCrop, RandomCrop, RandomResizedCrop, HorizontalFlip>;

/// To float: (x / 255 - mean) / std (of 16 bits x / 65535), rounded as PyTorch rounds it; a number
/// for each channel, or one for all. The default maps to [-1, 1]; mean 0 and std 1 give [0, 1].
struct Normalize {
  std::vector<float> mean = {0.5f};  ///< per channel, of pixels in [0, 1]
  std::vector<float> std = {0.5f};   ///< per channel; divided by
};

/// The whole way of a picture: the steps in order, then to float.
struct Transform {
  std::vector<TransformStep> steps = {};  ///< in this order
  Normalize normalize = {};               ///< behind them
};

/// One picture as an f32 tensor (C, H, W) on the CPU. `key` chooses the random crops and flips.
/// Throws ValueError for impossible options, ShapeError where a picture is too small.
Tensor to_tensor(const ImageView& image, const Transform& transform = {}, uint64_t key = 0);
/// The same with the channels of the picture and of 8 or 16 bits.
Tensor to_tensor(const PixelImage& image, const Transform& transform = {}, uint64_t key = 0);

}  // namespace brim::data
