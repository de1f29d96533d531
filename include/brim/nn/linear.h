// Fully connected layer.
#pragma once

#include <brim/nn/module.h>

namespace brim::nn {

/// y = x W^T + b. x: (.., in) -> (.., out). Weight (out, in) and bias (out) begin uniform in
/// +-1 / sqrt(in).
class Linear : public Module {
 public:
  struct Options {
    int64_t in = 0;
    int64_t out = 0;
    bool bias = true;
    DType dtype = DType::f32;
    Device device = {};
  };
  explicit Linear(Options options);
  Tensor forward(const Tensor& x) override;

  const Options options;
  Tensor& weight;
  Tensor& bias;  ///< undefined without bias

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
