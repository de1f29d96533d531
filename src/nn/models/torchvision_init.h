// How torchvision's VGG and MobileNetV2 begin.
#pragma once

#include <brim/nn/conv.h>
#include <brim/nn/init.h>
#include <brim/nn/linear.h>

namespace brim::nn {

/// Convolutions by kaiming_normal_ (fan_out), linear layers normal with a deviation of 0.01, biases
/// 0.
inline void init_as_torchvision(Module& network) {
  network.apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module)) {
      init::kaiming_normal_(
          conv->weight, {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
      if (conv->bias.defined()) init::zeros_(conv->bias);
    } else if (auto* linear = dynamic_cast<Linear*>(&module)) {
      init::normal_(linear->weight, 0, 0.01);
      init::zeros_(linear->bias);
    }
  });
}

}  // namespace brim::nn
