// Useful floating-point operations of a training step, per sample: the products of forward, weight
// gradients and input gradients, without the gradient of the network's input, which nobody asks
// for. A multiplication and an addition count as two.
#pragma once

#include <cstdint>
#include <vector>

#include <brim/nn/resnet.h>

#include "bench/command/blocks.h"

namespace brim::command {

/// Multiplications of a forward pass, layer by layer -> operations of a step.
inline double step_flops(const std::vector<int64_t>& forward) {
  int64_t products = -forward.front();
  for (const int64_t layer : forward) products += 3 * layer;
  return 2.0 * static_cast<double>(products);
}

/// PyTorch's tutorial network on 3 x 32 x 32: 3,204,720.
inline double tutorial_flops() {
  return step_flops(
      {(28 * 28) * 6 * (3 * 5 * 5), (10 * 10) * 16 * (6 * 5 * 5), 400 * 120, 120 * 84, 84 * 10});
}

inline double mlp_flops(const std::vector<int64_t>& widths) {
  std::vector<int64_t> layers;
  for (size_t i = 0; i + 1 < widths.size(); ++i) layers.push_back(widths[i] * widths[i + 1]);
  return step_flops(layers);
}

/// Blocks. Where a layer norm comes first, the gradient of the first product's input is asked for.
inline double transformer_block_flops() {
  constexpr int64_t t = kBlockTokens, c = kBlockWidth;
  return 6.0 * t * (3 * c * c + 2 * t * c + c * c + 2 * kBlockExpansion * c * c);
}
inline double convnext_block_flops() {
  constexpr int64_t pixels = kBlockSide * kBlockSide, c = kBlockWidth;
  constexpr int64_t linear = pixels * kBlockExpansion * c * c;
  return step_flops({pixels * c * 7 * 7, linear, linear});
}
inline double mlp_block_flops() {
  constexpr int64_t c = kBlockWidth;
  return 6.0 * kBlockLayers * kBlockTokens * (2 * kBlockExpansion * c * c);
}

/// A ResNet on 3 x side x side. `small_stem`: 3x3 of stride 1, without pooling.
inline double resnet_flops(int depth, int64_t side, int64_t classes, bool small_stem) {
  int64_t size = small_stem ? side : side / 2;
  std::vector<int64_t> layers{size * size * 64 * 3 * (small_stem ? 9 : 49)};
  if (!small_stem) size /= 2;
  const bool bottlenecks = nn::ResNet::has_bottlenecks(depth);
  int64_t in = 64;
  for (int64_t channels = 64; const int64_t blocks : nn::ResNet::blocks(depth)) {
    const int64_t out = channels * (bottlenecks ? nn::Bottleneck::kExpansion : 1);
    for (int64_t i = 0; i < blocks; ++i, in = out) {
      const int64_t before = size * size;
      if (i == 0 && channels > 64) size /= 2;
      const int64_t pixels = size * size;
      if (in != out) layers.push_back(pixels * out * in);  // the shortcut
      if (bottlenecks) {
        layers.push_back(before * channels * in);
        layers.push_back(pixels * channels * channels * 9);
        layers.push_back(pixels * out * channels);
      } else {
        layers.push_back(pixels * out * in * 9);
        layers.push_back(pixels * out * out * 9);
      }
    }
    channels *= 2;
  }
  layers.push_back(in * classes);
  return step_flops(layers);
}

}  // namespace brim::command
