// Layers that enlarge images, or take them apart.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/conv.h>
#include <brim/ops/interpolate.h>

namespace brim::nn {

/// interpolate(x). x: (N, C, H, W) -> (N, C, OH, OW).
class Upsample : public Module {
 public:
  using Options = InterpolateOptions;
  explicit Upsample(Options options);
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

/// pixel_shuffle(x). x: (.., C r r, H, W) -> (.., C, H r, W r), r = `factor`.
class PixelShuffle : public Module {
 public:
  struct Options {
    int64_t factor = 0;
  };
  explicit PixelShuffle(Options options);
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

/// pixel_unshuffle(x). x: (.., C, H r, W r) -> (.., C r r, H, W), r = `factor`.
class PixelUnshuffle : public Module {
 public:
  struct Options {
    int64_t factor = 0;
  };
  explicit PixelUnshuffle(Options options);
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

/// im2col(x). x: (N, C, H, W) -> (N, C KH KW, OH OW).
class Unfold : public Module {
 public:
  struct Options {
    Pair kernel = 0;
    Pair stride = 1;
    Pair padding = 0;
    Pair dilation = 1;
  };
  explicit Unfold(Options options);
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
