// How networks are taught by others (Task::imitation_loss).
#pragma once

#include <brim/core/tensor.h>

namespace brim::train {

/// The mean Kullback-Leibler divergence from the teacher's probabilities to the output's, both of
/// logits (N, C) or (N, C, d1, ..) over the temperature, times its square so that gradients keep
/// their size (Hinton et al. 2015, "Distilling the knowledge in a neural network").
Tensor softened_divergence(const Tensor& logits, const Tensor& teacher, double temperature);

}  // namespace brim::train
