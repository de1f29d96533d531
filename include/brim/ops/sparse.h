// Products with weights of which most numbers are zero. They are pruned in vectors (OVW: Tan et al.
// 2022, "Accelerating sparse convolution with column vector-wise sparsity"): an input column is
// kept or left out for `vector` outputs at once, so that kernels run over what is kept
// with whole vectors, as fast a number as dense ones.
#pragma once

#include <cstdint>

#include <brim/core/tensor.h>
#include <brim/ops/conv.h>

namespace brim {

/// A weight (O, K) or (O, C, KH, KW), without its columns of zeros. Groups are of `vector` outputs,
/// neighbours or others that keep the same columns, the last one of what is left.
struct SparseWeight {
  Shape shape;         ///< of the dense weight
  int64_t vector = 0;  ///< outputs of a group
  Tensor values;   ///< (kept, vector): of each kept column the numbers, 0 beyond O; group by group
  Tensor columns;  ///< i32 (kept): which of K, or of C x KH x KW in this order
  Tensor starts;   ///< i32 (groups + 1): where each group's columns begin
  Tensor outputs;  ///< i32 (O): which output stands at each position of the groups; undefined: in
                   ///< order

  /// Without the columns that are zero for all outputs of a group. Throws ShapeError unless the
  /// weight has 2 or 4 axes, ValueError unless `vector` is 4, 8, 16, 32 or 64.
  static SparseWeight encode(const Tensor& weight, int64_t vector);
  /// The weight as it was, on its device.
  Tensor dense() const;
  /// A copy on another device.
  SparseWeight to(Device device) const;
  /// Throws ValueError where the tensors are no such weight, as those of a damaged file; the second
  /// one does not look at their numbers.
  void check() const;
  /// Throws ValueError where the parts do not fit each other.
  void check_structure() const;
  /// Whether there are groups of so many outputs.
  static bool has_vectors_of(int64_t length);

  /// Of the groups' columns, which are kept.
  double density() const;
  int64_t bytes() const;  ///< of all its tensors
};

/// As linear(x, weight.dense(), bias), but that columns which are left out make no NaN of an
/// infinite x. x: (.., in), f32 as the weight -> (.., out). Throws ValueError where a gradient
/// would be lost.
Tensor sparse_linear(const Tensor& x, const SparseWeight& weight, const Tensor& bias = {});

/// As conv2d(x, weight.dense(), bias, options), without gradients; groups are not implemented. The
/// output has the memory format of x; nhwc is faster.
Tensor sparse_conv2d(const Tensor& x, const SparseWeight& weight, const Tensor& bias = {},
                     const Conv2dOptions& options = {});

}  // namespace brim
