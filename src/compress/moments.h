// Means and variances of outputs, which a little training brings back.
#pragma once

#include <brim/ops/binary.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include <vector>

namespace brim::compress {

inline std::vector<int> others_than_last(int rank) {
  std::vector<int> axes;
  for (int i = 0; i + 1 < rank; ++i) axes.push_back(i);
  return axes;
}

/// `y` with the mean and variance of each of its outputs as `like` has them: what is left out takes
/// these off, and a little training brings them back.
inline Tensor with_moments_of(const Tensor& y, const Tensor& like) {
  const std::vector<int> axes = y.rank() == 4 ? std::vector{0, 2, 3} : others_than_last(y.rank());
  const Tensor mean_of_y = mean(y, axes, true), mean_of_like = mean(like, axes, true);
  const Tensor spread_of_y = mean(square(y - mean_of_y), axes, true);
  const Tensor spread_of_like = mean(square(like - mean_of_like), axes, true);
  return (y - mean_of_y) * sqrt(spread_of_like / (spread_of_y + 1e-12)) + mean_of_like;
}

}  // namespace brim::compress
