// The last layers of a classifier, its loss and their gradients as one kernel: for networks so
// small that launches take longer than what they compute. A rewrite puts it into plans.
#pragma once

#include <span>

#include "backend/kernel.h"
#include "backend/options/class_loss.h"

namespace brim::backend {

constexpr int kMaxHeadLayers = 4;
constexpr int kHeadThreads = 512;
/// The most shared memory that a block asks for, in bytes; a device may grant less.
constexpr int64_t kHeadSharedBytes = 96 << 10;

/// "classifier_head". Layer k: a[k + 1] = a[k] W^T + b, and a ReLU but for the last, with a[0] = x;
/// then softmax_cross_entropy (fused_loss.h) and the gradients for an incoming gradient of 1.
/// x: (N, I), whose rows are dense; weights[k]: (O, I) and biases[k]: (O) or undefined, dense;
/// target: (N) i64, class_weight: (C) or undefined; loss: (N) or (). outputs[k]: a[k + 1], dx,
/// dweights[k] and dbiases[k]: dense. What is undefined of outputs, dx and dbiases is not wanted.
using ClassifierHeadKernel =
    Kernel<void(const Context&, const Tensor& x, std::span<const Tensor> weights,
                std::span<const Tensor> biases, const Tensor& target, const Tensor& class_weight,
                std::span<Tensor> outputs, Tensor& loss, Tensor& dx, std::span<Tensor> dweights,
                std::span<Tensor> dbiases, const ClassLoss& options)>;

/// Where the kernel keeps what it computes with, in floats from the start of a block's shared
/// memory: weights, biases, activations and their gradients, labels.
struct HeadMemory {
  int weights[kMaxHeadLayers], biases[kMaxHeadLayers];
  int activations[kMaxHeadLayers + 1], gradients[kMaxHeadLayers];
  int labels, scratch, total;

  /// weights: the shapes of the layers' weights, kMaxHeadLayers at most.
  HeadMemory(int64_t rows, std::span<const Shape> weights);
};

/// The problem that a backend's limit (has_kernel.h) is about.
struct HeadSize {
  int64_t shared_bytes;
};

/// Whether one block can be expected to beat a kernel for each layer: what it needs fits into
/// kHeadSharedBytes, and there are few multiply-adds.
bool classifier_head_is_fast(int64_t rows, std::span<const Shape> weights);

}  // namespace brim::backend
