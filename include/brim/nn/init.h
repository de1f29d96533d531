// Initial values of parameters, in place. They draw from Generator::global(), record no gradients
// and return their tensor.
#pragma once

#include <brim/core/tensor.h>

namespace brim::nn::init {

/// Of which variance kaiming_uniform_() keeps.
enum class FanMode : uint8_t {
  fan_in,  ///< keeps the variance forwards: divides by inputs
  fan_out  ///< keeps it backwards: divides by outputs
};
/// What follows the layer.
enum class Nonlinearity : uint8_t {
  linear,      ///< gain 1
  sigmoid,     ///< gain 1
  tanh,        ///< gain 5 / 3
  relu,        ///< gain sqrt(2)
  leaky_relu,  ///< gain sqrt(2 / (1 + slope^2))
  selu         ///< gain 3 / 4
};

/// Options of kaiming_uniform_() and kaiming_normal_().
struct KaimingOptions {
  double a = 0;                    ///< slope below zero of the leaky ReLU that follows
  FanMode mode = FanMode::fan_in;  ///< what the variance is kept in
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;  ///< that follows
};

/// Inputs and outputs of one unit. weight: (out, in, ...), trailing axes are the receptive field.
struct Fans {
  int64_t in = 0, out = 0;  ///< of one unit
};
/// Throws ShapeError below rank 2.
Fans fans(const Tensor& weight);
/// The factor that keeps the variance through a nonlinearity (PyTorch's calculate_gain).
double gain(Nonlinearity nonlinearity, double slope = 0.01);

Tensor uniform_(Tensor t, double low = 0, double high = 1);  ///< numbers in [low, high)
Tensor normal_(Tensor t, double mean = 0, double std = 1);   ///< normal numbers
Tensor constant_(Tensor t, double value);                    ///< `value` everywhere
Tensor zeros_(Tensor t);                                     ///< 0 everywhere
Tensor ones_(Tensor t);                                      ///< 1 everywhere
/// He et al., "Delving deep into rectifiers", ICCV 2015.
Tensor kaiming_uniform_(Tensor t, const KaimingOptions& options = {});
/// The same with normal numbers.
Tensor kaiming_normal_(Tensor t, const KaimingOptions& options = {});
/// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
/// AISTATS 2010.
Tensor xavier_uniform_(Tensor t, double gain = 1);
/// The same with normal numbers.
Tensor xavier_normal_(Tensor t, double gain = 1);

/// While one lives, what is above leaves tensors of this thread as they are, uninitialised: for
/// networks of which nobody asks for values.
class SkipInit {
 public:
  SkipInit();  ///< until the end of the scope
  ~SkipInit();
  SkipInit(const SkipInit&) = delete;
  SkipInit& operator=(const SkipInit&) = delete;
};

}  // namespace brim::nn::init
