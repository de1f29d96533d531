// Dropout as a module.
#pragma once

#include <brim/nn/module.h>

namespace brim::nn {

/// dropout with probability p in training; x itself in eval.
class Dropout : public Module {
 public:
  struct Options {
    double p = 0.5;
  };
  explicit Dropout(Options options);
  Dropout() : Dropout(Options{}) {}
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
