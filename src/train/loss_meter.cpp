#include "train/loss_meter.h"

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>

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

}  // namespace brim::train
