// Weights to measure with of which columns are zero for some outputs at once.
#pragma once

#include <brim/core/tensor.h>

#include <algorithm>
#include <random>
#include <vector>

namespace brim::bench {

inline Tensor pruned(const Tensor& weight, int64_t vector, double sparsity) {
  std::mt19937 random(1);
  const int64_t outputs = weight.size(0), columns = weight.numel() / outputs;
  std::vector<float> w = weight.to_vector<float>();
  for (int64_t first = 0; first < outputs; first += vector)
    for (int64_t k = 0; k < columns; ++k) {
      if (std::uniform_real_distribution<double>()(random) >= sparsity) continue;
      for (int64_t o = first; o < std::min(first + vector, outputs); ++o)
        w[static_cast<size_t>(o * columns + k)] = 0;
    }
  return Tensor::from<float>(w, weight.shape());
}

}  // namespace brim::bench
