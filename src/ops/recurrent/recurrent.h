// What lstm and gru share: checks, steps in their order, gradients as products over all steps.
// H: hidden, G: gates of a cell.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <vector>

#include <brim/core/tensor.h>

namespace brim::ops {

/// The sizes of a sequence, and which way it goes.
struct StepOrder {
  int64_t steps, batch, hidden;
  bool reverse;

  /// Where the i-th step lies.
  int64_t at(int64_t i) const { return reverse ? steps - 1 - i : i; }
  /// (T, N, columns)
  Shape shape(int64_t columns) const { return {steps, batch, columns}; }
  /// Parts (N, ..) of x (T, N, ..), in the order of the steps.
  std::vector<Tensor> parts(const Tensor& x) const;
  /// The same back again.
  Tensor joined(std::vector<Tensor> parts) const;
};

/// gates: (T, N, G H), weight: (G H, H), bias: (G H) or undefined, states: (N, H) each. Throws
/// ShapeError, DTypeError, DeviceError where they do not fit.
StepOrder check_steps(const char* op, int64_t count, const Tensor& gates, const Tensor& weight,
                      const Tensor& bias, std::initializer_list<Tensor> states, bool reverse);

/// The gradients of a sequence. c is undefined for gru, bias for lstm.
struct StepGradients {
  Tensor gates, h, c;
  std::function<Tensor()> weight, bias;  // ops of their own, where they are wanted
};

/// lstm()'s, made of ops, so that they have gradients themselves. 16 bits are computed in f32.
StepGradients composed_lstm_grad(const StepOrder& order, const Tensor& dy, const Tensor& dcells,
                                 const Tensor& gates, const Tensor& weight, const Tensor& h,
                                 const Tensor& c);
/// gru()'s, likewise.
StepGradients composed_gru_grad(const StepOrder& order, const Tensor& dy, const Tensor& gates,
                                const Tensor& weight, const Tensor& bias, const Tensor& h);

/// The gradient of the weight (G H, H) by those of what it gives the gates (T, N, G H); y:
/// (T, N, H), h: (N, H) before the first step.
Tensor recurrent_weight_grad(const StepOrder& order, const Tensor& dgates, const Tensor& h,
                             const Tensor& y);

/// Multiplications and additions of all steps. y: (T, N, H).
inline double recurrent_operations(const Tensor& y, int64_t gates) {
  return 2.0 * static_cast<double>(y.numel()) * static_cast<double>(gates * y.size(-1));
}

}  // namespace brim::ops
