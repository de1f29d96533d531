// Kernels of a dynamic loss scale. Whether gradients overflowed is decided and used on the device,
// so that no step waits for the host.
#pragma once

#include <span>
#include <string>

#include "backend/kernel.h"
#include "formula/optim.h"

namespace brim::backend {

/// How the scale reacts to a step.
struct LossScaleRule {
  double growth = 2;     // factor after `interval` good steps in a row
  double backoff = 0.5;  // factor after an overflow
  int32_t interval = 2000;
  friend bool operator==(const LossScaleRule& x, const LossScaleRule& y) {
    return same_bits(x.growth, y.growth) && same_bits(x.backoff, y.backoff) &&
           x.interval == y.interval;
  }
};

/// "list_unscale", by the gradients' dtype: divides all of them by `scale` (f32 scalar), and sets
/// `found_inf` (f32 scalar) to 1 if one is infinite or NaN; otherwise it stays.
using UnscaleKernel =
    Kernel<void(const Context&, std::span<Tensor> grads, const Tensor& scale, Tensor& found_inf)>;

/// "update_loss_scale" (f32): the scale of the next step. good_steps (i32 scalar): those since the
/// scale last changed. A scale that would not be finite stays.
using ScaleUpdateKernel = Kernel<void(const Context&, const Tensor& found_inf, Tensor& scale,
                                      Tensor& good_steps, const LossScaleRule&)>;

/// "sgd_if_finite", "adam_if_finite", ... (the name of one of formula::OptimFormulas and
/// "_if_finite"): the optimizer's step where found_inf is 0. Elsewhere only `skipped` (f32 scalar)
/// is counted up. StepParams::step counts the skipped ones, too.
using GuardedStepKernel =
    Kernel<void(const Context&, std::span<Tensor> params, std::span<const Tensor> grads,
                std::span<Tensor> states, const Tensor& found_inf, Tensor& skipped,
                const formula::StepParams&)>;

inline std::string guarded_step_name(const char* step) { return std::string(step) + "_if_finite"; }

}  // namespace brim::backend
