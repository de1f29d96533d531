// A network that says of each pixel what it belongs to.
#pragma once

#include <brim/nn/container.h>
#include <brim/nn/conv.h>
#include <brim/nn/module.h>
#include <brim/nn/norm.h>

namespace brim::nn {

/// Options of UNet.
struct UNetOptions {
  int64_t in = 3;                    ///< channels of x
  int64_t classes = 2;               ///< channels of the result
  int64_t width = 64;                ///< channels at full size; twice as many at each half of it
  int64_t depth = 4;                 ///< how often the size is halved
  DType dtype = DType::f32;          ///< of the parameters
  Device device = default_device();  ///< of the parameters
};

/// A U-Net (Ronneberger et al., "U-Net: Convolutional networks for biomedical image segmentation",
/// MICCAI 2015), with padded convolutions and batch norm behind each, as is usual since. x: (N, in,
/// H, W), H and W multiples of 2^depth -> logits (N, classes, H, W). "unet", and with width 8 and
/// depth 3 "unet-small".
class UNet : public Module {
 public:
  using Options = UNetOptions;     ///< of the constructor
  explicit UNet(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  const Options options;            ///< as given to the constructor
  ModuleList<Sequential>& down;     ///< two convolutions at each size, from the full one on
  ModuleList<ConvTranspose2d>& up;  ///< from the smallest size on
  ModuleList<Sequential>& merge;    ///< two convolutions behind each of up
  Conv2d& head;                     ///< 1x1, to the classes
};

}  // namespace brim::nn
