// Gradient clipping, between backward and step. On one device nothing here waits for it.
#pragma once

#include <brim/optim/optimizer.h>

namespace brim::optim {

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is that of all of them
/// taken as one vector (norm_type 2: Euclidean, infinity: the largest, p: p-norm). Returns the norm
/// before, as a scalar tensor on the first gradient's device, in f32 where gradients have 16 bits.
/// Gradients are of one dtype; where they lie on several devices, the norm of each is copied.
/// Throws ValueError for max_norm < 0 or norm_type <= 0, DTypeError.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       double norm_type = 2);

/// Limits each element of the gradients to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace brim::optim
