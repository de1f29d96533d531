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
  /// Options of Mlp.
  struct Options {
    int64_t features = 0;              ///< of a sample
    int64_t hidden = 128;              ///< width of both hidden layers
    int64_t out = 1;                   ///< size of the last axis of the result
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  explicit Mlp(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;

  BatchNorm2d& norm;        ///< of the features
  Linear &fc1, &fc2, &fc3;  ///< the layers
};

}  // namespace brim::nn
