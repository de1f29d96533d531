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

/// max(x, 0).
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

/// min(max(x, 0), 6).
class ReLU6 : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

/// 1 / (1 + exp(-x)).
class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

/// tanh(x).
class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

/// x sigmoid(x).
class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

/// x Phi(x) (Hendrycks and Gimpel 2016).
class GELU : public Module {
 public:
  /// Options of GELU.
  struct Options {
    GeluForm form = GeluForm::exact;  ///< exact, or with the approximation by tanh
  };
  explicit GELU(Options options) : options(options) {}  ///< with these options
  GELU() : GELU(Options{}) {}                           ///< with the default options
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// x where it is above 0, else slope x.
class LeakyReLU : public Module {
 public:
  /// Options of LeakyReLU.
  struct Options {
    double slope = 0.01;  ///< below 0
  };
  explicit LeakyReLU(Options options) : options(options) {}  ///< with these options
  LeakyReLU() : LeakyReLU(Options{}) {}                      ///< with the default options
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// x where it is above 0, else alpha (exp(x) - 1) (Clevert et al. 2016).
class ELU : public Module {
 public:
  /// Options of ELU.
  struct Options {
    double alpha = 1;  ///< how far below 0 it goes
  };
  explicit ELU(Options options) : options(options) {}  ///< with these options
  ELU() : ELU(Options{}) {}                            ///< with the default options
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// softmax(x, axis): positive, and 1 in sum.
class Softmax : public Module {
 public:
  /// Options of Softmax.
  struct Options {
    int axis = -1;  ///< along which they add up to 1
  };
  explicit Softmax(Options options) : options(options) {}  ///< with these options
  Softmax() : Softmax(Options{}) {}                        ///< with the default options
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
