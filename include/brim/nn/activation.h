// Activation functions as modules.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/unary.h>

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

/// min(max(x, 0), 6).
class ReLU6 : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

class GELU : public Module {
 public:
  struct Options {
    GeluForm form = GeluForm::exact;
  };
  explicit GELU(Options options) : options(options) {}
  GELU() : GELU(Options{}) {}
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

class LeakyReLU : public Module {
 public:
  struct Options {
    double slope = 0.01;
  };
  explicit LeakyReLU(Options options) : options(options) {}
  LeakyReLU() : LeakyReLU(Options{}) {}
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

class ELU : public Module {
 public:
  struct Options {
    double alpha = 1;
  };
  explicit ELU(Options options) : options(options) {}
  ELU() : ELU(Options{}) {}
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
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
