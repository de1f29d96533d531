#include <brim/nn/loss.h>

namespace brim::nn {

CrossEntropyLoss::CrossEntropyLoss(Options options)
    : options_(options), weight_(buffer("weight", options.weight)) {}

Tensor CrossEntropyLoss::forward(const Tensor& logits, const Tensor& target) {
  options_.weight = weight_;
  return cross_entropy(logits, target, options_);
}

}  // namespace brim::nn
