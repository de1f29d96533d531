// The layers of a network whose weights are pruned: convolutions and linear layers, by name.
#pragma once

#include <brim/nn/conv.h>
#include <brim/nn/linear.h>

#include <string>
#include <vector>

namespace brim::compress {

struct Prunable {
  std::string name;
  nn::Linear* linear = nullptr;  ///< or
  nn::Conv2d* conv = nullptr;

  Tensor& weight() const { return linear ? linear->weight : conv->weight; }
  int64_t groups() const { return conv ? conv->options.groups : 1; }
};

/// In the order of registration.
std::vector<Prunable> prunable_layers(nn::Module& network);

}  // namespace brim::compress
