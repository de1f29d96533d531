// Sums that stay on the device until they are asked for.
#include "train/metrics.h"

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/index.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>

namespace brim::train {

LossMeter::LossMeter(Device device) : sum_(zeros({}, {.device = device})) {}

void LossMeter::add(const Tensor& loss) {
  const NoGrad guard;
  sum_.add_(loss.detach());
}

LossSum LossMeter::read() const { return {steps_ ? sum_.item() : 0, steps_}; }

void LossMeter::reset(const LossSum& from) {
  const NoGrad guard;
  sum_.fill_(from.sum);
  steps_ = from.steps;
}

AccuracyMeter::AccuracyMeter(int64_t classes, Device device)
    : correct_(zeros({classes}, {.dtype = f64, .device = device})),
      total_(zeros({classes}, {.dtype = f64, .device = device})),
      loss_(zeros({}, {.dtype = f64, .device = device})) {}

void AccuracyMeter::add(const Tensor& logits, const Tensor& y) {
  const NoGrad guard;
  const Tensor is = one_hot(y, correct_.numel(), f64);
  const Tensor hit = eq(argmax(logits, 1, /*keepdim=*/true), y.unsqueeze(1));
  correct_.add_(sum(is * hit.to(f64), {0}));
  total_.add_(sum(is, {0}));
  loss_.add_(cross_entropy(logits, y, {.reduction = Reduction::sum}).to(f64));
  samples_ += y.numel();
}

Evaluation AccuracyMeter::read(const std::vector<std::string>& class_names) const {
  Evaluation result{.samples = samples_};
  const std::vector<int64_t> correct = correct_.to(i64).to_vector<int64_t>();
  const std::vector<int64_t> total = total_.to(i64).to_vector<int64_t>();
  int64_t all = 0;
  for (size_t i = 0; i < correct.size(); ++i) {
    const std::string name = i < class_names.size() ? class_names[i] : std::to_string(i);
    result.classes.push_back({.name = name, .samples = total[i], .correct = correct[i]});
    all += correct[i];
  }
  if (samples_ > 0) {
    result.loss = loss_.item() / static_cast<double>(samples_);
    result.accuracy = static_cast<double>(all) / static_cast<double>(samples_);
  }
  return result;
}

}  // namespace brim::train
