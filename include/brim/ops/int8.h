// Layers in 8-bit integers (Jacob et al., "Quantization and training of neural networks for
// efficient integer-arithmetic-only inference", CVPR 2018): activations are u8 with one scale and
// zero point for a tensor, weights i8 with a scale for each output. Sums are i32 and exact, so that
// a product is the same on every CPU until it is scaled.
#pragma once

#include <cstdint>
#include <optional>

#include <brim/core/quant_params.h>
#include <brim/core/tensor.h>
#include <brim/ops/conv.h>

namespace brim {

/// round(x / scale) + zero_point, half to even, held in 0..255 (NaN becomes 0): f32 -> u8, in the
/// memory format of x. x is multiplied by 1 / scale in f32, as PyTorch does.
Tensor quantize(const Tensor& x, QuantParams params);
/// (q - zero_point) * scale: u8 -> f32.
Tensor dequantize(const Tensor& q, QuantParams params);
/// dequantize(quantize(x)), through which gradients pass unchanged where x is inside of the range,
/// and are 0 elsewhere (the straight-through estimator: Bengio et al. 2013).
Tensor fake_quantize(const Tensor& x, QuantParams params);
/// The same of a weight as Int8Weight::quantize() makes it, with a scale for each output.
Tensor fake_quantize_weight(const Tensor& weight);

/// A weight (O, K) or (O, C, KH, KW) in integers of -127..127.
struct Int8Weight {
  Tensor values;  ///< i8, of the weight's shape
  Tensor scales;  ///< f32 (O): a number of output o is values * scales[o]
  /// f32 (O): added to outputs, to make up for what rounding moves them by on average
  /// (compress::quantize()); or undefined.
  Tensor correction;
  Tensor packed;  ///< i8: the values in the order in which this machine's kernels read them
  Tensor sums;    ///< i32 (O): of each output's values

  /// Each output's largest magnitude becomes 127. Throws ShapeError unless the weight has 2 or 4
  /// axes, ValueError where it is not finite, or where an output has more numbers (kMaxInputs)
  /// than an i32 can hold the sum of.
  static Int8Weight quantize(const Tensor& weight);
  /// Of what files have. Throws ValueError where it is no weight.
  static Int8Weight of(const Tensor& values, const Tensor& scales, const Tensor& correction = {});
  /// values * scales: f32.
  Tensor dense() const;
  /// A copy on another device.
  Int8Weight to(Device device) const;
  /// Throws ValueError, DeviceError where the tensors do not belong together; does not look at
  /// their numbers.
  void check_structure() const;
  const Shape& shape() const { return values.shape(); }  ///< of the weight
  int64_t bytes() const;                                 ///< of values, scales and correction

  /// The most inputs of an output whose sums fit into 32 bits.
  static constexpr int64_t kMaxInputs = 2147483647 / (255 * 127);
};

/// What becomes of an int8 layer's sums.
struct Int8Output {
  bool relu = false;  ///< max(result, 0)
  /// u8 for the next layer instead of f32, as quantize() of the result gives.
  std::optional<QuantParams> quantized;
  /// Whether all parts are equal.
  friend bool operator==(const Int8Output&, const Int8Output&) = default;
};

/// linear(dequantize(q, input), weight.dense(), bias) + weight.correction, without gradients. q:
/// (.., in), u8 ->
/// (.., out).
Tensor int8_linear(const Tensor& q, QuantParams input, const Int8Weight& weight,
                   const Tensor& bias = {}, const Int8Output& output = {});

/// conv2d(dequantize(q, input), weight.dense(), bias, options) + weight.correction, without
/// gradients; groups are not implemented. The output has the memory format of q; nhwc is faster.
Tensor int8_conv2d(const Tensor& q, QuantParams input, const Int8Weight& weight,
                   const Tensor& bias = {}, const Conv2dOptions& options = {},
                   const Int8Output& output = {});

}  // namespace brim
