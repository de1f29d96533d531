// Mixed precision: inside an Autocast scope matrix products and convolutions work in 16 bits, while
// parameters, their gradients and everything that is sensitive to rounding stay f32.
//
//   optim::GradScaler scaler(device);  // for f16 only, see <brim/optim/grad_scaler.h>
//   Tensor loss;
//   {
//     const Autocast scope(bf16);
//     loss = cross_entropy(net(x), y);
//   }
//   loss.backward();
#pragma once

#include <brim/core/dtype.h>

namespace brim {

/// In this scope, and in this thread, ops choose the dtype they work in:
///
/// - matmul, bmm, einsum, linear, conv1d, conv2d, conv_transpose2d: `dtype`, with sums in f32
///   inside;
/// - sum, mean, prod, var, stddev, norm, cumsum, logsumexp, softmax, log_softmax, layer_norm,
///   group_norm, rms_norm, the losses, exp, expm1, log, log1p, log2, log10, pow, reciprocal, rsqrt,
///   softplus: f32;
/// - batch_norm: x is taken and the result given in x's dtype; weight, bias, statistics and the
///   arithmetic are f32;
/// - add, sub, mul, div, maximum, minimum, atan2, remainder, fmod, where, cat, stack, comparisons:
///   the wider of their inputs' dtypes, where one of them is 16 bits wide and another f32;
/// - all others: what they are given.
///
/// f64 and integers are left alone. Gradients flow through the casts, so a parameter's gradient has
/// the parameter's dtype; backward() itself casts nothing more. The cast of a parameter is kept
/// until it is written or the outermost scope ends. A compiled step notes the scope it is called
/// in.
class Autocast {
 public:
  /// `dtype`: f16 or bf16, or f32 to switch it off in this scope. Throws DTypeError for others.
  explicit Autocast(DType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// What matrix products work in here: f16, bf16, or f32 where no scope is on.
  static DType current();

 private:
  DType previous_;
};

}  // namespace brim
