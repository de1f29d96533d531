#include "train/loss_meter.h"

#include <brim/autograd/autograd.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>

namespace brim::train {

LossMeter::LossMeter(Device device, int64_t parts)
    : sum_(zeros({}, {.device = device})),
      finite_(ones({parts}, {.device = device})),
      finite_steps_(zeros({parts}, {.device = device})) {}

void LossMeter::add(const Tensor& loss, const Tensor& part_losses) {
  const NoGrad guard;
  sum_.add_(loss.detach());
  if (!part_losses.defined()) return;
  has_parts_ = true;
  finite_.mul_(isfinite(part_losses).to(f32));
  finite_steps_.add_(finite_);
}

std::vector<int64_t> LossMeter::finite_steps() const {
  return finite_steps_.to(i64).to_vector<int64_t>();
}

LossSum LossMeter::read() const { return {steps_ ? sum_.item() : 0, steps_}; }

void LossMeter::reset(const LossSum& from) {
  const NoGrad guard;
  sum_.fill_(from.sum);
  steps_ = from.steps;
  if (!has_parts_ && from.steps == 0) return;  // as they were made
  finite_.fill_(1);
  finite_steps_.fill_(static_cast<double>(from.steps));  // what was kept was finite
}

}  // namespace brim::train
