// Weights of which columns are zero for some outputs at once.
#pragma once

#include <brim/ops/create.h>
#include <brim/ops/index.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace brim::tests {

/// A weight of whose columns most are zero for `vector` outputs at once.
inline Tensor pruned_weight(const Shape& shape, int64_t vector, double sparsity,
                            unsigned seed = 1) {
  std::mt19937 random(seed);
  const int64_t columns = shape.numel() / std::max<int64_t>(shape[0], 1);
  std::vector<float> w = rand(shape, {.dtype = f32}).to_vector<float>();
  for (int64_t first = 0; first < shape[0]; first += vector)
    for (int64_t k = 0; k < columns; ++k) {
      if (std::uniform_real_distribution<double>()(random) >= sparsity) continue;
      for (int64_t o = first; o < std::min(first + vector, shape[0]); ++o)
        w[static_cast<size_t>(o * columns + k)] = 0;
    }
  return Tensor::from<float>(w, shape);
}

/// The same with its outputs in another order.
inline Tensor shuffled_outputs(const Tensor& weight, unsigned seed = 3) {
  std::vector<int64_t> order(static_cast<size_t>(weight.size(0)));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  const int64_t count = std::ssize(order);
  return index_select(weight, 0, Tensor::from<int64_t>(order, {count}));
}

}  // namespace brim::tests
