// What networks of the zoo take in tests of what is written of them.
#pragma once

#include <string>

#include <brim/autograd/autograd.h>
#include <brim/nn/module.h>
#include <brim/ops/create.h>

namespace brim::tests {

struct ZooInput {
  Shape shape;  ///< of a sample
  int64_t classes = 10;
  bool is_tokens = false;
};

/// `full`: photographs as large as in training.
inline ZooInput zoo_input(const std::string& model, bool full) {
  if (model == "mlp") return {{8}, 3};
  if (model.starts_with("transformer")) return {{48}, 64, true};
  if (model.starts_with("unet")) return {{3, 64, 64}, 4};
  if (model == "tutorial-cnn" || model.find("cifar") != std::string::npos) return {{3, 32, 32}};
  return {full ? Shape{3, 224, 224} : Shape{3, 64, 64}};
}

inline Tensor random_input(const ZooInput& input, int64_t batch) {
  Shape shape = input.shape;
  shape.insert(0, batch);
  if (input.is_tokens) return randint(0, input.classes, shape);
  return randn(shape);
}

/// Statistics as a training leaves them, so that no layer's outputs explode or vanish.
inline void warm_up(nn::Module& network, const ZooInput& input) {
  const NoGrad scope;
  network.train();
  for (int i = 0; i < 3; ++i) (void)network(random_input(input, 4));
  network.eval();
}

/// Networks that take hundreds of megabytes.
inline bool is_large_network(const std::string& name) {
  return name.starts_with("vgg") || name.starts_with("resnet101") || name.starts_with("resnet152");
}

}  // namespace brim::tests
