// What the kernels "attention" and "attention_grad" are told beside their tensors.
#pragma once

#include <algorithm>
#include <cstdint>

#include <brim/core/same_bits.h>
#include <brim/core/tensor.h>

namespace brim::backend {

struct AttentionParams {
  double scale = 1;     // of the scores
  bool causal = false;  // query i sees keys 0 .. i
  double dropout = 0;   // probability; the key of its random numbers is an argument of its own
  friend bool operator==(const AttentionParams& x, const AttentionParams& y) {
    return same_bits(x.scale, y.scale) && x.causal == y.causal && same_bits(x.dropout, y.dropout);
  }
};

/// How many keys all queries see together. q: (B, H, L, E), k: (B, Hkv, S, E).
inline double attention_pairs(const Tensor& q, const Tensor& k, bool causal) {
  const auto heads = static_cast<double>(q.shape()[0] * q.shape()[1]);
  const auto queries = static_cast<double>(q.shape()[2]), keys = static_cast<double>(k.shape()[2]);
  if (!causal) return heads * queries * keys;
  const double corner = std::min(queries, keys);
  return heads * (corner * (corner + 1) / 2 + (queries - corner) * keys);
}

}  // namespace brim::backend
