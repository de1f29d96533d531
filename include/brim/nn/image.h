// Layers that enlarge images, or take them apart.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/conv.h>
#include <brim/ops/interpolate.h>

namespace brim::nn {

/// interpolate(x). x: (N, C, H, W) -> (N, C, OH, OW).
class Upsample : public Module {
 public:
  using Options = InterpolateOptions;  ///< of the constructor
  explicit Upsample(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// pixel_shuffle(x). x: (.., C r r, H, W) -> (.., C, H r, W r), r = `factor`.
class PixelShuffle : public Module {
 public:
  /// Options of PixelShuffle.
  struct Options {
    int64_t factor = 0;  ///< r
  };
  explicit PixelShuffle(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// pixel_unshuffle(x). x: (.., C, H r, W r) -> (.., C r r, H, W), r = `factor`.
class PixelUnshuffle : public Module {
 public:
  /// Options of PixelUnshuffle.
  struct Options {
    int64_t factor = 0;  ///< r
  };
  explicit PixelUnshuffle(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// im2col(x). x: (N, C, H, W) -> (N, C KH KW, OH OW).
class Unfold : public Module {
 public:
  /// Options of Unfold.
  struct Options {
    Pair kernel = 0;    ///< height and width
    Pair stride = 1;    ///< pixels from window to window
    Pair padding = 0;   ///< zeros at each side
    Pair dilation = 1;  ///< pixels from tap to tap
  };
  explicit Unfold(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
