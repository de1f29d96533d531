// Dropout as a module.
#pragma once

#include <brim/nn/module.h>

namespace brim::nn {

/// dropout with probability p in training; x itself in eval.
class Dropout : public Module {
 public:
  /// Options of Dropout.
  struct Options {
    double p = 0.5;  ///< of an element to become 0, in [0, 1]
  };
  explicit Dropout(Options options);  ///< Throws ValueError for options out of range
  Dropout() : Dropout(Options{}) {}   ///< with the default options
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
