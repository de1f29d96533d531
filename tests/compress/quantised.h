// A network to be quantised.
#pragma once

#include <brim/nn/activation.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <cmath>

namespace brim::tests {

struct Quantised : nn::Module {
  nn::Conv2d& conv1 = add<nn::Conv2d>("conv1", {.in = 3, .out = 16, .kernel = 3, .padding = 1});
  nn::BatchNorm2d& bn1 = add<nn::BatchNorm2d>("bn1", {.features = 16});
  nn::Conv2d& conv2 = add<nn::Conv2d>("conv2", {.in = 16, .out = 20, .kernel = 3, .bias = false});
  nn::Linear& fc = add<nn::Linear>("fc", {.in = 20, .out = 5});
  Tensor forward(const Tensor& x) override {
    return fc(relu(conv2(relu(bn1(conv1(x))))).mean({2, 3}));
  }
};

inline double relative_error(const Tensor& a, const Tensor& b) {
  return std::sqrt(sum(square(a - b)).item() / sum(square(b)).item());
}

}  // namespace brim::tests
