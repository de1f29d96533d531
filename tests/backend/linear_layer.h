// Operands of a fully connected layer, for tests of its kernels.
#pragma once

#include <string>

#include <brim/core/tensor.h>
#include <brim/ops/create.h>

namespace brim::tests {

struct LinearSize {
  int64_t rows, inputs, outputs;

  std::string str() const {
    return std::to_string(rows) + " x " + std::to_string(inputs) + " -> " + std::to_string(outputs);
  }
};

/// A layer and the gradient of its result, on the CPU.
struct LinearLayer {
  Tensor x, weight, bias, dy;
  LinearLayer(const LinearSize& s, DType dtype)
      : x(randn({s.rows, s.inputs}).to(dtype)),
        weight(randn({s.outputs, s.inputs}).to(dtype)),
        bias(randn({s.outputs}).to(dtype)),
        dy(randn({s.rows, s.outputs}).to(dtype)) {}
};

}  // namespace brim::tests
