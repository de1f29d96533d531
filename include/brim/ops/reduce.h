// Reductions over any axes; no axes means all of them. `keepdim` leaves reduced axes with size 1.
// Results do not depend on the number of threads; f32 sums are widened to f64 block by block. All
// have gradients of any order except any, all and the indices.
#pragma once

#include <optional>
#include <vector>

#include <brim/core/tensor.h>

namespace brim {

/// Integers and bool give i64. The sum of nothing is 0.
Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
/// Floating dtypes only (DTypeError). The mean of nothing is NaN.
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
/// Integers and bool give i64. The product of nothing is 1.
Tensor prod(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);

///@{
/// The largest (smallest) element; NaN if there is one. Equal ones share the gradient evenly.
/// Throws ValueError for an empty axis.
Tensor amax(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
///@}
///@{
/// As amax() and amin() over all elements.
inline Tensor max(const Tensor& x) { return amax(x); }
inline Tensor min(const Tensor& x) { return amin(x); }
///@}

/// Elements and where they are.
struct Extremum {
  Tensor values;   ///< the largest (smallest) along the axis
  Tensor indices;  ///< i64: the first of equal ones; the first NaN if there is one
};
///@{
/// The gradient goes to the element that `indices` names.
Extremum max(const Tensor& x, int axis, bool keepdim = false);
Extremum min(const Tensor& x, int axis, bool keepdim = false);
///@}
///@{
/// i64. Without an axis: the row-major position in all of x.
Tensor argmax(const Tensor& x, std::optional<int> axis = {}, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<int> axis = {}, bool keepdim = false);
///@}

/// sum((x - mean)^2) / (n - correction): 1 is the unbiased estimate, 0 the population's variance.
Tensor var(const Tensor& x, const std::vector<int>& axes = {}, double correction = 1,
           bool keepdim = false);
/// sqrt(var(x)), PyTorch's std: under `using namespace brim` that name would be ambiguous.
Tensor stddev(const Tensor& x, const std::vector<int>& axes = {}, double correction = 1,
              bool keepdim = false);

/// (sum |x|^p)^(1/p); 2 is Euclidean (Frobenius over two axes), infinity the largest |x|.
Tensor norm(const Tensor& x, double p = 2, const std::vector<int>& axes = {}, bool keepdim = false);
/// log(sum(exp(x))), without overflow.
Tensor logsumexp(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);

///@{
/// bool: whether any element (all elements) differ from 0. Of nothing: false (true).
Tensor any(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const std::vector<int>& axes = {}, bool keepdim = false);
///@}

/// y[i] = x[0] + ... + x[i] along `axis`. Integers and bool give i64.
Tensor cumsum(const Tensor& x, int axis);

}  // namespace brim
