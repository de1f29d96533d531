#include <brim/nn/loss.h>

namespace brim::nn {

CrossEntropyLoss::CrossEntropyLoss(Options options)
    : options_(options), weight_(buffer("weight", options.weight)) {}

Tensor CrossEntropyLoss::forward(const Tensor& logits, const Tensor& target) {
  options_.weight = weight_;
  return cross_entropy(logits, target, options_);
}

NLLLoss::NLLLoss(Options options) : options_(options), weight_(buffer("weight", options.weight)) {}

Tensor NLLLoss::forward(const Tensor& log_probs, const Tensor& target) {
  options_.weight = weight_;
  return nll_loss(log_probs, target, options_);
}

BCEWithLogitsLoss::BCEWithLogitsLoss(Options options)
    : options_(options),
      weight_(buffer("weight", options.weight)),
      pos_weight_(buffer("pos_weight", options.pos_weight)) {}

Tensor BCEWithLogitsLoss::forward(const Tensor& logits, const Tensor& target) {
  options_.weight = weight_;
  options_.pos_weight = pos_weight_;
  return bce_with_logits(logits, target, options_);
}

Tensor MSELoss::forward(const Tensor& output, const Tensor& target) {
  return mse_loss(output, target, options.reduction);
}

Tensor L1Loss::forward(const Tensor& output, const Tensor& target) {
  return l1_loss(output, target, options.reduction);
}

}  // namespace brim::nn
