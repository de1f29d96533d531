#include "train/apply_gradients.h"

#include <brim/optim/clip.h>

namespace brim::train {

void apply_gradients(optim::Optimizer& optimizer, optim::GradScaler* scaler,
                     const std::vector<Tensor>& parameters, double clip_norm) {
  if (clip_norm > 0) {
    if (scaler) scaler->unscale_(optimizer);
    optim::clip_grad_norm_(parameters, clip_norm);
  }
  if (!scaler) return optimizer.step();
  scaler->step(optimizer);
  scaler->update();
}

}  // namespace brim::train
