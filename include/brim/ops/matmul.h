// Matrix products. Transposed views are used as they are; where both operands are transposed and
// oneDNN does not take them, each thread copies the panels of the second that it works on.
#pragma once

#include <string>
#include <vector>

#include <brim/core/tensor.h>

namespace brim {

/// Matrix product with NumPy's rules: (.., M, K) x (.., K, N) -> (.., M, N), leading axes
/// broadcast; a vector (K) counts as a row on the left and as a column on the right. Throws
/// ShapeError when the inner sizes differ.
Tensor matmul(const Tensor& a, const Tensor& b);

/// (B, M, K) x (B, K, N) -> (B, M, N), nothing broadcast. Throws ShapeError for other ranks and
/// where batches or inner sizes differ.
Tensor bmm(const Tensor& a, const Tensor& b);

/// (M) x (N) -> (M, N): y[i, j] = a[i] b[j].
Tensor outer(const Tensor& a, const Tensor& b);

/// y = x W^T + b. x: (.., in), weight: (out, in), bias: (out) or undefined -> (.., out).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

/// Sums of products by a formula: einsum("bhik,bhjk->bhij", {q, k}). A letter names an axis of each
/// operand; those that the result has not are summed over, a letter twice in an operand is its
/// diagonal, "..." stands for axes that broadcast, and without "->" the result has, in alphabetical
/// order, the letters that are there once. Products of two at a time, from the left, by matmul.
/// Throws ValueError for a formula that is none, ShapeError where sizes of a letter differ.
Tensor einsum(const std::string& formula, const std::vector<Tensor>& operands);

}  // namespace brim
