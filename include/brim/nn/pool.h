// Pooling layers over (N, C, H, W), and Flatten.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/pool.h>

namespace brim::nn {

class MaxPool2d : public Module {
 public:
  struct Options {
    Pair kernel = 0;
    Pair stride = 0;  ///< 0: the kernel's size
    Pair padding = 0;
    Pair dilation = 1;
    bool ceil_mode = false;
  };
  explicit MaxPool2d(Options options);
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

class AvgPool2d : public Module {
 public:
  struct Options {
    Pair kernel = 0;
    Pair stride = 0;
    Pair padding = 0;
    bool ceil_mode = false;
    bool count_include_pad = true;
  };
  explicit AvgPool2d(Options options);
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

class AdaptiveAvgPool2d : public Module {
 public:
  struct Options {
    Pair output = 1;  ///< (H, W) of the result
  };
  explicit AdaptiveAvgPool2d(Options options);
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

/// Joins the axes start .. end into one; keeps the batch axis by default.
class Flatten : public Module {
 public:
  struct Options {
    int start = 1;
    int end = -1;
  };
  explicit Flatten(Options options = {1, -1}) : options(options) {}
  Tensor forward(const Tensor& x) override;
  const Options options;

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
