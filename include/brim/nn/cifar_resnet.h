// The small ResNets for pictures of 32 x 32 (He et al., "Deep residual learning for image
// recognition", CVPR 2016, section 4.2).
#pragma once

#include <cstdint>

#include <brim/nn/container.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/module.h>
#include <brim/nn/norm.h>

namespace brim::nn {

/// x: (N, 3, H, W) -> logits (N, classes): a 3x3 convolution, three layers of (depth - 2) / 6
/// BasicBlocks with 16, 32 and 64 channels, an average and a linear layer. Where sizes change the
/// shortcut is a 1x1 convolution, as in ResNet. "cifar-resnet8", "cifar-resnet20",
/// "cifar-resnet56".
class CifarResNet : public Module {
 public:
  /// Options of CifarResNet.
  struct Options {
    int depth = 20;                    ///< 6 n + 2
    int64_t classes = 10;              ///< how many logits
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  /// Throws ValueError for another depth.
  explicit CifarResNet(Options options);
  CifarResNet() : CifarResNet(Options{}) {}  ///< with the default options
  Tensor forward(const Tensor& x) override;

  const Options options;                 ///< as given to the constructor
  Conv2d& conv1;                         ///< the first convolution, and its norm
  BatchNorm2d& bn1;                      ///< of conv1
  Sequential &layer1, &layer2, &layer3;  ///< with 16, 32 and 64 channels
  Linear& fc;                            ///< the last layer
};

}  // namespace brim::nn
