// What the op and its composed gradient share. q: (B, H, L, E), k: (B, Hkv, S, E),
// v: (B, Hkv, S, Ev), mask: (B, H, L, S) or undefined.
#pragma once

#include <brim/core/random.h>
#include <brim/core/tensor.h>

#include "backend/options/attention_params.h"

namespace brim::ops {

struct AttentionGradients {
  Tensor q, k, v, mask;  // mask: undefined unless it is added
};

/// The gradients made of ops, so that they have gradients themselves; takes memory for all scores.
AttentionGradients composed_attention_grad(const Tensor& dy, const Tensor& q, const Tensor& k,
                                           const Tensor& v, const Tensor& mask,
                                           const backend::AttentionParams& params,
                                           const RandomKey& key);

}  // namespace brim::ops
