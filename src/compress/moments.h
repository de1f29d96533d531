// Means and variances of outputs, which a little training brings back.
#pragma once

#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <vector>

namespace brim::compress {

/// The axes of what a layer made but for that of its outputs: the second of a convolution's, the
/// last of a linear layer's, whatever its rank.
inline std::vector<int> axes_beside_outputs(int rank, bool is_convolution) {
  std::vector<int> axes;
  for (int i = 0; i < rank; ++i)
    if (i != (is_convolution ? 1 : rank - 1)) axes.push_back(i);
  return axes;
}

/// `y` with the mean and variance of each of its outputs as `like` has them: what is left out takes
/// these off, and a little training brings them back.
inline Tensor with_moments_of(const Tensor& y, const Tensor& like, bool is_convolution) {
  const std::vector<int> axes = axes_beside_outputs(y.rank(), is_convolution);
  // Of one number for each output nothing would be left but the mean.
  if (y.numel() < 2 * y.size(is_convolution ? 1 : -1)) return y;
  const Tensor mean_of_y = mean(y, axes, true), mean_of_like = mean(like, axes, true);
  const Tensor spread_of_y = mean(square(y - mean_of_y), axes, true);
  const Tensor spread_of_like = mean(square(like - mean_of_like), axes, true);
  return (y - mean_of_y) * sqrt(spread_of_like / (spread_of_y + 1e-12)) + mean_of_like;
}

}  // namespace brim::compress
