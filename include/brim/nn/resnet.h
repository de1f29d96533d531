// ResNets (He et al., "Deep residual learning for image recognition", CVPR 2016) as torchvision
// builds them: the names and shapes of the state are the same, so files can be exchanged.
#pragma once

#include <array>
#include <cstdint>

#include <brim/nn/container.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/module.h>
#include <brim/nn/norm.h>

namespace brim::nn {

/// What a residual block is made of: `channels` in its 3x3 convolutions, of which the first
/// strides.
struct ResidualOptions {
  int64_t in = 0, channels = 0;      ///< of x, and of the 3x3 convolutions
  int64_t stride = 1;                ///< of the block; 2 halves the sides
  DType dtype = DType::f32;          ///< of the parameters
  Device device = default_device();  ///< of the parameters
};

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)), of two 3x3 convolutions. The shortcut is x
/// itself, or `downsample` (a 1x1 convolution and a BatchNorm2d) where sizes change.
class BasicBlock : public Module {
 public:
  using Options = ResidualOptions;  ///< of the constructor
  static constexpr int64_t kExpansion =
      1;                                 ///< channels of the result for each of Options::channels
  explicit BasicBlock(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  Conv2d& conv1;           ///< 3x3, strides
  BatchNorm2d& bn1;        ///< of conv1
  Conv2d& conv2;           ///< 3x3
  BatchNorm2d& bn2;        ///< of conv2
  Sequential* downsample;  ///< null where the shortcut is x
};

/// The same of convolutions of 1x1, 3x3 and 1x1, the last of which has four times the channels. The
/// 3x3 strides, as in torchvision ("ResNet v1.5"), not the first 1x1 as in the paper.
class Bottleneck : public Module {
 public:
  using Options = ResidualOptions;  ///< of the constructor
  /// Channels of the result for each of Options::channels.
  static constexpr int64_t kExpansion = 4;
  explicit Bottleneck(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  Conv2d& conv1;           ///< 1x1
  BatchNorm2d& bn1;        ///< of conv1
  Conv2d& conv2;           ///< 3x3, strides
  BatchNorm2d& bn2;        ///< of conv2
  Conv2d& conv3;           ///< 1x1, to 4 times the channels
  BatchNorm2d& bn3;        ///< of conv3
  Sequential* downsample;  ///< null where the shortcut is x
};

/// x: (N, 3, H, W), H and W at least 1 -> logits (N, classes). Convolutions begin as torchvision's
/// (kaiming_normal_ by fan_out), the rest as its layers do.
class ResNet : public Module {
 public:
  /// How the first layers look at a picture.
  enum class Stem : uint8_t {
    imagenet,  ///< torchvision's: a 7x7 convolution of stride 2 and a max pooling, for 224x224
    small,     ///< a 3x3 convolution of stride 1, for 32x32; only conv1.weight differs in shape
  };
  /// Options of ResNet.
  struct Options {
    int depth = 18;                    ///< 18 or 34, of BasicBlocks; 50, 101 or 152, of Bottlenecks
    int64_t classes = 1000;            ///< how many logits
    Stem stem = Stem::imagenet;        ///< how the first layers look at a picture
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  /// The blocks of each of the four layers. Throws ValueError for another depth.
  static std::array<int64_t, 4> blocks(int depth);
  /// Whether that depth is made of Bottlenecks.
  static bool has_bottlenecks(int depth) { return depth >= 50; }

  /// Throws ValueError for a depth that there is not.
  explicit ResNet(Options options);
  ResNet() : ResNet(Options{}) {}  ///< with the default options
  Tensor forward(const Tensor& x) override;

  const Options options;                          ///< as given to the constructor
  Conv2d& conv1;                                  ///< of the stem
  BatchNorm2d& bn1;                               ///< of conv1
  Sequential &layer1, &layer2, &layer3, &layer4;  ///< the blocks
  Linear& fc;                                     ///< the last layer
};

}  // namespace brim::nn
