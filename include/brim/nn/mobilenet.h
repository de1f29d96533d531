// MobileNetV2 (Sandler et al., "MobileNetV2: Inverted residuals and linear bottlenecks", CVPR 2018)
// as torchvision builds it: the names and shapes of the state are the same, so files can be
// exchanged.
#pragma once

#include <cstdint>

#include <brim/nn/container.h>
#include <brim/nn/module.h>

namespace brim::nn {

/// A 1x1 convolution to `expansion` times the channels, a depthwise 3x3 one and a 1x1 one to `out`,
/// each with batch norm, the first two with ReLU6; x is added where sizes do not change.
class InvertedResidual : public Module {
 public:
  /// Options of InvertedResidual.
  struct Options {
    int64_t in = 0, out = 0;           ///< channels of x and of the result
    int64_t stride = 1;                ///< 1 or 2
    int64_t expansion = 6;             ///< 1: without the first convolution
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  /// Throws ValueError for options out of range.
  explicit InvertedResidual(Options options);
  Tensor forward(const Tensor& x) override;

  const Options options;  ///< as given to the constructor
  Sequential& conv;       ///< the convolutions and their norms
};

/// x: (N, 3, H, W) -> logits (N, classes): a 3x3 convolution of stride 2, seventeen
/// InvertedResiduals, a 1x1 convolution, an average, dropout and a linear layer. Weights begin as
/// torchvision's.
class MobileNetV2 : public Module {
 public:
  /// Options of MobileNetV2.
  struct Options {
    int64_t classes = 1000;    ///< how many logits
    double width = 1;          ///< factor of the channels, which are rounded to multiples of 8
    double dropout = 0.2;      ///< before the linear layer, in training
    DType dtype = DType::f32;  ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  /// Throws ValueError for options out of range.
  explicit MobileNetV2(Options options);
  MobileNetV2() : MobileNetV2(Options{}) {}  ///< with the default options
  Tensor forward(const Tensor& x) override;

  const Options options;  ///< as given to the constructor
  /// Torchvision's names for the convolutions, and for what follows.
  Sequential &features, &classifier;
};

}  // namespace brim::nn
