// The samples that a network is most wrong about.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <brim/core/tensor.h>
#include <brim/train/trainer.h>

namespace brim::train {

/// Of samples with one class each. What it keeps stays on the device until it is read.
class MostWrong {
 public:
  /// Keeps so many; 0: none.
  explicit MostWrong(int64_t most) : most_(most) {}

  /// Adds a batch: logits (N, C), and classes (N). Others are passed over. Without gradients.
  void add(const Tensor& output, const Tensor& y, std::span<const int64_t> samples);
  /// The largest losses first, of samples with one loss in their order; waits for the device.
  std::vector<Evaluation::Wrong> read() const;

 private:
  const int64_t most_;
  Tensor losses_, kept_;          // (K) f32; (K, 4) f64: place, class, what was said, probability
  std::vector<int64_t> samples_;  // by place
};

}  // namespace brim::train
