// VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image
// recognition", ICLR 2015) as torchvision builds it: the names and shapes of the state are the
// same, so files can be exchanged.
#pragma once

#include <cstdint>
#include <vector>

#include <brim/nn/container.h>
#include <brim/nn/module.h>

namespace brim::nn {

/// x: (N, 3, H, W), H and W at least 32 -> logits (N, classes): five stages of 3x3 convolutions
/// with ReLU, each ended by a max pooling, an average over 7x7, and three linear layers with
/// dropout. Weights begin as torchvision's: convolutions by kaiming_normal_ (fan_out), linear
/// layers normal with a deviation of 0.01, biases 0.
class Vgg : public Module {
 public:
  /// Options of Vgg.
  struct Options {
    int depth = 16;                    ///< 11, 13, 16 or 19 layers with weights
    bool batch_norm = false;           ///< behind each convolution
    int64_t classes = 1000;            ///< how many logits
    double dropout = 0.5;              ///< between the linear layers, in training
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  /// Convolutions of each stage. Throws ValueError for another depth.
  static std::vector<int> convolutions(int depth);

  /// Throws ValueError for a depth that there is not.
  explicit Vgg(Options options);
  Vgg() : Vgg(Options{}) {}  ///< with the default options
  Tensor forward(const Tensor& x) override;

  const Options options;  ///< as given to the constructor
  /// Torchvision's names for the convolutions, and for what follows.
  Sequential &features, &classifier;
};

}  // namespace brim::nn
