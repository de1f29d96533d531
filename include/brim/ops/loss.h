// Losses, with gradients of any order. `reduction` says what becomes of the single losses.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

/// What becomes of the losses of the elements or samples.
enum class Reduction : uint8_t {
  none,  ///< a loss per element
  mean,  ///< their mean
  sum    ///< their sum
};

/// Options of cross_entropy().
struct CrossEntropyOptions {
  Tensor weight = {};           ///< (C): a factor per class
  int64_t ignore_index = -100;  ///< labels of this value count nothing
  double label_smoothing = 0;   ///< in [0, 1]: this share of the target is spread over all classes
  Reduction reduction = Reduction::mean;  ///< of the samples' losses
};

/// -log softmax(logits)[target]. logits: (N, C), (C) or (N, C, d1, ...); target: i64 or i32 labels
/// (N), () or (N, d1, ...), or probabilities of the logits' shape and dtype. The mean is over the
/// labels that are not ignored, weighted by their class; over N for probabilities. A label outside
/// [0, C) throws IndexError: here on the CPU, at the next synchronisation on other devices.
Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options = {});

/// Options of nll_loss().
struct NllLossOptions {
  Tensor weight = {};                     ///< (C): a factor per class
  int64_t ignore_index = -100;            ///< labels of this value count nothing
  Reduction reduction = Reduction::mean;  ///< of the samples' losses
};

/// The same on log-probabilities: -log_probs[target].
Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllLossOptions& options = {});

/// (x - y)^2; x and y broadcast.
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// |x - y|
Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// (x - y)^2 / (2 beta) where |x - y| < beta, else |x - y| - beta / 2. Throws unless beta > 0.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1,
                      Reduction reduction = Reduction::mean);
/// delta times smooth_l1_loss of beta = delta.
Tensor huber_loss(const Tensor& x, const Tensor& y, double delta = 1,
                  Reduction reduction = Reduction::mean);

/// Options of bce_with_logits().
struct BceOptions {
  Tensor weight = {};                     ///< a factor per element, broadcast to x
  Tensor pos_weight = {};                 ///< a factor of the positive part, broadcast to x
  Reduction reduction = Reduction::mean;  ///< of the elements' losses
};

/// Binary cross-entropy of sigmoid(x) and target in [0, 1], of one shape; no overflow for any x.
Tensor bce_with_logits(const Tensor& x, const Tensor& target, const BceOptions& options = {});

}  // namespace brim
