// Activation functions as modules.
#pragma once

#include <brim/nn/module.h>

namespace brim::nn {

/// Gives back what it gets; a place to put something else later.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class Softmax : public Module {
 public:
  struct Options {
    int axis = -1;
  };
  explicit Softmax(Options options) : options(options) {}
  Softmax() : Softmax(Options{}) {}
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
