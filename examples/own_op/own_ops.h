// Three ops that brim does not have: what a program includes.
#pragma once

#include <brim/core/tensor.h>

namespace own {

/// x / (1 + |x|), for any shape of floats.
brim::Tensor softsign(const brim::Tensor& x);

/// The logarithm of the mean of exp(x), row by row. x: (N, D) f32 or f64. Returns (N).
brim::Tensor log_mean_exp(const brim::Tensor& x);

/// The distances |a - b|_1 of all rows. a: (N, D), b: (M, D), f32 or f64. Returns (N, M).
brim::Tensor l1_distances(const brim::Tensor& a, const brim::Tensor& b);

}  // namespace own
