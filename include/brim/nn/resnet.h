// ResNet-18 (He et al., "Deep residual learning for image recognition", CVPR 2016) as torchvision
// builds it: the names and shapes of the state are the same, so its files can be exchanged.
#pragma once

#include <cstdint>

#include <brim/nn/container.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/module.h>
#include <brim/nn/norm.h>

namespace brim::nn {

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)). The shortcut is x itself, or `downsample`
/// (a 1x1 convolution and a BatchNorm2d) where sizes change.
class BasicBlock : public Module {
 public:
  struct Options {
    int64_t in = 0, out = 0;
    int64_t stride = 1;
    DType dtype = DType::f32;
    Device device = {};
  };
  explicit BasicBlock(Options options);
  Tensor forward(const Tensor& x) override;

  Conv2d& conv1;
  BatchNorm2d& bn1;
  Conv2d& conv2;
  BatchNorm2d& bn2;
  Sequential* downsample;  ///< null where the shortcut is x
};

/// x: (N, 3, H, W), H and W at least 1 -> logits (N, classes). Convolutions begin as torchvision's
/// (kaiming_normal_ by fan_out), the rest as its layers do.
class ResNet18 : public Module {
 public:
  /// How the first layers look at a picture.
  enum class Stem : uint8_t {
    imagenet,  ///< torchvision's: a 7x7 convolution of stride 2 and a max pooling, for 224x224
    small,     ///< a 3x3 convolution of stride 1, for 32x32; only conv1.weight differs in shape
  };
  struct Options {
    int64_t classes = 1000;
    Stem stem = Stem::imagenet;
    DType dtype = DType::f32;
    Device device = {};
  };
  explicit ResNet18(Options options);
  ResNet18() : ResNet18(Options{}) {}
  Tensor forward(const Tensor& x) override;

  const Options options;
  Conv2d& conv1;
  BatchNorm2d& bn1;
  Sequential &layer1, &layer2, &layer3, &layer4;  ///< two BasicBlocks each
  Linear& fc;
};

}  // namespace brim::nn
