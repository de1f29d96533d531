// The windows of convolutions and pooling, as ONNX has them.
#pragma once

#include <cstdint>
#include <vector>

#include "deploy/engine/network.h"

namespace brim::deploy {

/// Height, then width; pads before both, then behind.
struct OnnxWindows {
  using Sizes = std::vector<int64_t>;
  Sizes kernel, strides, pads, dilations;

  explicit OnnxWindows(const EngineNode& node)
      : kernel(node.attribute("kernel_shape", Sizes{1, 1})),
        strides(node.attribute("strides", Sizes{1, 1})),
        pads(node.attribute("pads", Sizes{0, 0, 0, 0})),
        dilations(node.attribute("dilations", Sizes{1, 1})) {}

  /// Those of a step's attributes.
  template <class Attributes>
  void put_into(Attributes& a) const {
    a.kernel_h = kernel[0];
    a.kernel_w = kernel[1];
    a.stride_h = strides[0];
    a.stride_w = strides[1];
    a.top = pads[0];
    a.left = pads[1];
    a.dilation_h = dilations[0];
    a.dilation_w = dilations[1];
  }
};

}  // namespace brim::deploy
