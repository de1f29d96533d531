#include <brim/nn/image.h>

#include <brim/ops/shape.h>

#include "nn/layer.h"

namespace brim::nn {
namespace {

const Upsample::Options& checked_size(const Upsample::Options& o) {
  BRIM_CHECK((o.size != 0) != (o.scale != 0), ValueError,
             "[Upsample] give either the size of the result or a scale");
  return o;
}

}  // namespace

Upsample::Upsample(Options o) : options(checked_size(o)) {}
Tensor Upsample::forward(const Tensor& x) { return interpolate(x, options); }
std::string Upsample::options_str() const {
  std::string text = options.size != 0 ? "size=" + pair_str(options.size)
                                       : fmt::format("scale={:g}", options.scale);
  if (options.mode == Interpolation::bilinear) text += ", bilinear";
  return text + (options.align_corners ? ", align_corners" : "");
}

PixelShuffle::PixelShuffle(Options o) : options(o) {
  check_positive("PixelShuffle", "factor", o.factor);
}
Tensor PixelShuffle::forward(const Tensor& x) { return pixel_shuffle(x, options.factor); }
std::string PixelShuffle::options_str() const { return fmt::format("factor={}", options.factor); }

PixelUnshuffle::PixelUnshuffle(Options o) : options(o) {
  check_positive("PixelUnshuffle", "factor", o.factor);
}
Tensor PixelUnshuffle::forward(const Tensor& x) { return pixel_unshuffle(x, options.factor); }
std::string PixelUnshuffle::options_str() const { return fmt::format("factor={}", options.factor); }

Unfold::Unfold(Options o) : options(o) {
  check_positive("Unfold", "kernel", std::min(o.kernel.h, o.kernel.w));
  check_positive("Unfold", "stride", std::min(o.stride.h, o.stride.w));
  check_positive("Unfold", "dilation", std::min(o.dilation.h, o.dilation.w));
}
Tensor Unfold::forward(const Tensor& x) {
  return im2col(
      x, options.kernel,
      {.stride = options.stride, .padding = options.padding, .dilation = options.dilation});
}
std::string Unfold::options_str() const {
  std::string text = "kernel=" + pair_str(options.kernel);
  if (options.stride != 1) text += ", stride=" + pair_str(options.stride);
  if (options.padding != 0) text += ", padding=" + pair_str(options.padding);
  return text + (options.dilation != 1 ? ", dilation=" + pair_str(options.dilation) : "");
}

}  // namespace brim::nn
