// Normalisation layers as functions, with gradients of any order for x, weight and bias.
#pragma once

#include <brim/core/tensor.h>

namespace brim {

/// Options of batch_norm().
struct BatchNormOptions {
  bool training = false;  ///< normalise with the batch's statistics and update the running ones
  double momentum = 0.1;  ///< running = (1 - momentum) running + momentum batch
  double eps = 1e-5;      ///< added to the variance
};

/// (x - mean) / sqrt(var + eps) * weight + bias per channel (Ioffe and Szegedy 2015). x: (N, C,
/// ...), the others (C), of x's dtype or, beside an x of 16 bits, all f32: results and x's gradient
/// have x's dtype then, the arithmetic between and the other gradients are f32. weight and bias may
/// be undefined. In training the running statistics, unless undefined, are updated in place, the
/// variance with its unbiased estimate, and are NaN once x is not finite; otherwise they are
/// required. Throws DTypeError for other mixtures, and ShapeError, in training also for one value
/// per channel.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options = {});

/// Normalises over the last axes, whose sizes are `normalized_shape` (Ba et al. 2016); weight and
/// bias have that shape or are undefined.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

/// Normalises `groups` groups of channels of each sample (Wu and He 2018). x: (N, C, ...).
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

/// x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang and Sennrich 2019).
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                double eps = 1e-5);

}  // namespace brim
