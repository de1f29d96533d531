// What one block needs for the head of a classifier, and when it pays.
#include "backend/classifier_head.h"

namespace brim::backend {
namespace {

constexpr int64_t kMostFloats = kHeadSharedBytes / 4;

}  // namespace

HeadMemory::HeadMemory(int64_t rows, std::span<const Shape> shapes) {
  int next = 0;
  const auto take = [&](int64_t floats) {
    const int at = next;
    next += static_cast<int>((floats + 3) / 4 * 4);  // in accesses of 16 bytes
    return at;
  };
  for (size_t k = 0; k < shapes.size(); ++k) {
    weights[k] = take(shapes[k].numel());
    biases[k] = take(shapes[k][0]);
    activations[k] = take(rows * shapes[k][1]);
    gradients[k] = take(rows * shapes[k][0]);
  }
  activations[shapes.size()] = take(rows * shapes.back()[0]);
  labels = take(2 * rows);
  room = take(kHeadThreads);
  total = next;
}

bool classifier_head_is_fast(int64_t rows, std::span<const Shape> weights) {
  // One multiprocessor of some 130 computes: 2^17 multiply-adds a pass take it about as long as
  // three launches.
  constexpr int64_t kMostWork = int64_t{1} << 17;
  if (rows == 0 || rows > kMostFloats || weights.empty() || weights.size() > kMostHeadLayers)
    return false;
  int64_t floats = 0;
  for (const Shape& w : weights) {
    if (w.numel() == 0 || w.numel() > kMostFloats) return false;
    floats += w.numel();
  }
  return floats <= kMostFloats && rows * floats <= kMostWork &&
         HeadMemory(rows, weights).total <= kMostFloats;
}

}  // namespace brim::backend
