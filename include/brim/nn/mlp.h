// A network for rows of tables.
#pragma once

#include <brim/nn/linear.h>
#include <brim/nn/module.h>
#include <brim/nn/norm.h>

namespace brim::nn {

/// Features are brought to mean 0 and deviation 1 as a BatchNorm2d finds them, then two hidden
/// layers. x: (N, features) or any shape of so many -> (N, out). "mlp".
class Mlp : public Module {
 public:
  struct Options {
    int64_t features = 0;
    int64_t hidden = 128;
    int64_t out = 1;
    DType dtype = DType::f32;
    Device device = default_device();
  };
  explicit Mlp(Options options);
  Tensor forward(const Tensor& x) override;

  BatchNorm2d& norm;
  Linear &fc1, &fc2, &fc3;
};

}  // namespace brim::nn
