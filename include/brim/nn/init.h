// Initial values of parameters, in place. They draw from Generator::global(), record no gradients
// and return their tensor.
#pragma once

#include <brim/core/tensor.h>

namespace brim::nn::init {

enum class FanMode : uint8_t { fan_in, fan_out };
enum class Nonlinearity : uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };

struct KaimingOptions {
  double a = 0;  ///< slope below zero of the leaky ReLU that follows
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};

/// Inputs and outputs of one unit. weight: (out, in, ...), trailing axes are the receptive field.
struct Fans {
  int64_t in = 0, out = 0;
};
/// Throws ShapeError below rank 2.
Fans fans(const Tensor& weight);
/// The factor that keeps the variance through a nonlinearity (PyTorch's calculate_gain).
double gain(Nonlinearity nonlinearity, double slope = 0.01);

Tensor uniform_(Tensor t, double low = 0, double high = 1);
Tensor normal_(Tensor t, double mean = 0, double std = 1);
Tensor constant_(Tensor t, double value);
Tensor zeros_(Tensor t);
Tensor ones_(Tensor t);
/// He et al., "Delving deep into rectifiers", ICCV 2015.
Tensor kaiming_uniform_(Tensor t, const KaimingOptions& options = {});
Tensor kaiming_normal_(Tensor t, const KaimingOptions& options = {});
/// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
/// AISTATS 2010.
Tensor xavier_uniform_(Tensor t, double gain = 1);
Tensor xavier_normal_(Tensor t, double gain = 1);

/// While one lives, what is above leaves tensors of this thread as they are, uninitialised: for
/// networks of which nobody asks for values.
class SkipInit {
 public:
  SkipInit();
  ~SkipInit();
  SkipInit(const SkipInit&) = delete;
  SkipInit& operator=(const SkipInit&) = delete;
};

}  // namespace brim::nn::init
