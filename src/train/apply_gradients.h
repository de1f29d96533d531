// The end of a training step: the parameters move by their gradients.
#pragma once

#include <vector>

#include <brim/core/tensor.h>
#include <brim/optim/grad_scaler.h>
#include <brim/optim/optimizer.h>

namespace brim::train {

/// Clips the gradients to `clip_norm` (0: not) and steps, with the scale of the loss taken out
/// where there is a `scaler`. Waits for no device.
void apply_gradients(optim::Optimizer& optimizer, optim::GradScaler* scaler,
                     const std::vector<Tensor>& parameters, double clip_norm);

}  // namespace brim::train
