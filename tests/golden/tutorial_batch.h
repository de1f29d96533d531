// The computed batches of the golden training runs; the formula is described in training.py.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <brim/core/tensor.h>

#include "core/hash.h"

namespace golden {

using brim::splitmix64;

/// Images (size, 3, 32, 32) f32 in [-1, 1] and labels (size) i64.
inline std::pair<brim::Tensor, brim::Tensor> tutorial_batch(uint64_t seed, int64_t number,
                                                            int64_t size) {
  constexpr int64_t kPixels = 3 * 32 * 32;
  std::vector<float> images(static_cast<size_t>(size * kPixels));
  std::vector<int64_t> labels(static_cast<size_t>(size));
  for (int64_t n = 0; n < size; ++n) {
    const auto sample = static_cast<uint64_t>(number * size + n);
    const uint64_t label = (splitmix64(seed + sample) >> 32) % 10;
    labels[static_cast<size_t>(n)] = static_cast<int64_t>(label);
    for (uint64_t i = 0; i < kPixels; ++i) {
      const uint64_t block = i / 1024 * 64 + i / 32 % 32 / 4 * 8 + i % 32 / 4;
      const uint64_t noise = splitmix64((seed << 32) + sample * kPixels + i) >> 56;
      const uint64_t pattern = splitmix64(label * 192 + block) >> 56;
      const float pixel = static_cast<float>((noise + pattern) / 2) / 255.0f;
      images[static_cast<size_t>(n) * kPixels + i] = (pixel - 0.5f) / 0.5f;
    }
  }
  return {brim::Tensor::from(images, {size, 3, 32, 32}), brim::Tensor::from(labels, {size})};
}

}  // namespace golden
