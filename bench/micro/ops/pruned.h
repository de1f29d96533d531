// Layers to measure sparse weights with, of which columns are zero for some outputs at once.
#pragma once

#include <brim/core/tensor.h>

#include <algorithm>
#include <random>
#include <vector>

namespace brim::bench {

/// A convolution or, of two axes, a linear layer.
struct Layer {
  Shape x, weight;
  int64_t stride = 1;
};

/// ResNets' convolutions, and linear layers.
inline std::vector<Layer> layers_to_prune(int64_t batch) {
  return {{{batch, 64, 56, 56}, {64, 64, 3, 3}},
          {{batch, 128, 28, 28}, {128, 128, 3, 3}},
          {{batch, 256, 14, 14}, {256, 256, 3, 3}},
          {{batch, 512, 7, 7}, {512, 512, 3, 3}},
          {{batch, 128, 28, 28}, {256, 128, 3, 3}, 2},
          {{batch, 256, 14, 14}, {1024, 256, 1, 1}},
          {{batch, 1024}, {1024, 1024}},
          {{batch, 2048}, {2048, 2048}},
          {{batch, 4096}, {4096, 4096}}};
}

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
