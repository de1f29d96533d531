// Pooling layers over (N, C, H, W), and Flatten.
#pragma once

#include <brim/nn/module.h>
#include <brim/ops/pool.h>

namespace brim::nn {

/// max_pool2d(x). x: (N, C, H, W) -> (N, C, OH, OW).
class MaxPool2d : public Module {
 public:
  /// Options of MaxPool2d.
  struct Options {
    Pair kernel = 0;         ///< height and width of a window
    Pair stride = 0;         ///< 0: the kernel's size
    Pair padding = 0;        ///< with -infinity; at most half the kernel
    Pair dilation = 1;       ///< pixels from tap to tap
    bool ceil_mode = false;  ///< a window may reach beyond the end
  };
  explicit MaxPool2d(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// avg_pool2d(x). x: (N, C, H, W) -> (N, C, OH, OW).
class AvgPool2d : public Module {
 public:
  /// Options of AvgPool2d.
  struct Options {
    Pair kernel = 0;                ///< height and width of a window
    Pair stride = 0;                ///< 0: the kernel's size
    Pair padding = 0;               ///< with zeros; at most half the kernel
    bool ceil_mode = false;         ///< a window may reach beyond the end
    bool count_include_pad = true;  ///< the mean is over padding, too
  };
  explicit AvgPool2d(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// adaptive_avg_pool2d(x). x: (N, C, H, W) -> (N, C, output.h, output.w).
class AdaptiveAvgPool2d : public Module {
 public:
  /// Options of AdaptiveAvgPool2d.
  struct Options {
    Pair output = 1;  ///< (H, W) of the result
  };
  explicit AdaptiveAvgPool2d(Options options);  ///< Throws ValueError for options out of range
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

/// Joins the axes start .. end into one; keeps the batch axis by default.
class Flatten : public Module {
 public:
  /// Options of Flatten.
  struct Options {
    int start = 1;  ///< the first axis that is joined
    int end = -1;   ///< the last one
  };
  explicit Flatten(Options options = {1, -1}) : options(options) {}  ///< with these options
  Tensor forward(const Tensor& x) override;
  const Options options;  ///< as given to the constructor

 protected:
  std::string options_str() const override;
};

}  // namespace brim::nn
