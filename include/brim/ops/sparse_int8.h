// Layers in 8-bit integers (brim/ops/int8.h) whose weights have their columns of zeros left out
// (brim/ops/sparse.h). Sums are those of the dense integers: exact, and the same on every CPU.
#pragma once

#include <cstdint>

#include <brim/core/quant_params.h>
#include <brim/core/tensor.h>
#include <brim/ops/conv.h>
#include <brim/ops/int8.h>
#include <brim/ops/sparse.h>

namespace brim {

/// A weight (O, K) or (O, C, KH, KW) in integers of -127..127, without its columns of zeros. Groups
/// are as those of SparseWeight.
struct SparseInt8Weight {
  Shape shape;         ///< of the dense weight
  int64_t vector = 0;  ///< outputs of a group
  Tensor values;       ///< i8 (kept, vector)
  Tensor columns;      ///< i32 (kept)
  Tensor starts;       ///< i32 (groups + 1)
  Tensor outputs;      ///< i32 (O), or undefined: in order
  Tensor scales;       ///< f32 (O): a number of output o is values * scales[o]
  Tensor correction;   ///< f32 (O) as Int8Weight has it, or undefined
  Tensor packed;       ///< i8: the values in the order in which this machine's kernels read them
  Tensor sums;         ///< i32 (O): of each output's values

  /// Without the columns that are zero for all outputs of a group. Throws ValueError unless
  /// `vector` is 4, 8, 16, 32 or 64.
  static SparseInt8Weight encode(const Int8Weight& weight, int64_t vector);
  /// encode(Int8Weight::quantize(weight), vector), and throws as these do.
  static SparseInt8Weight quantize(const Tensor& weight, int64_t vector);
  /// Of what files have: all but `packed` and `sums`, which are made. Throws ValueError where it is
  /// no weight.
  static SparseInt8Weight of(SparseInt8Weight parts);
  /// The same integers, with the zeros.
  Int8Weight int8() const;
  /// values * scales, with the zeros: f32.
  Tensor dense() const;
  /// A copy on another device.
  SparseInt8Weight to(Device device) const;
  /// Throws ValueError, DeviceError where the tensors do not belong together; does not look at
  /// their numbers.
  void check_structure() const;

  /// Of the groups' columns, which are kept.
  double density() const;
  int64_t bytes() const;  ///< of all but `packed` and `sums`
};

/// As int8_linear(q, input, weight.int8(), bias, output), to the bit. q: (.., in), u8 -> (.., out).
Tensor sparse_int8_linear(const Tensor& q, QuantParams input, const SparseInt8Weight& weight,
                          const Tensor& bias = {}, const Int8Output& output = {});

/// As int8_conv2d(q, input, weight.int8(), bias, options, output), to the bit; groups are not
/// implemented. The output has the memory format of q; nchw is faster.
Tensor sparse_int8_conv2d(const Tensor& q, QuantParams input, const SparseInt8Weight& weight,
                          const Tensor& bias = {}, const Conv2dOptions& options = {},
                          const Int8Output& output = {});

}  // namespace brim
