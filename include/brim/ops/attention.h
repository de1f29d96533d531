// Attention (Vaswani et al., "Attention is all you need", NeurIPS 2017).
#pragma once

#include <optional>

#include <brim/core/random.h>
#include <brim/core/tensor.h>

namespace brim {

/// Options of scaled_dot_product_attention().
struct AttentionOptions {
  /// Broadcast to (.., H, L, S). bool: true where a query may see a key; or of q's dtype: added to
  /// the scores. Undefined: all see all.
  Tensor mask = {};
  bool causal = false;               ///< query i sees keys 0 .. i, within what the mask allows
  double dropout = 0;                ///< of the weights, in training
  std::optional<double> scale = {};  ///< of the scores; 1 / sqrt(E) unless given
  bool training = true;              ///< false: no dropout
  Generator* generator = nullptr;    ///< of dropout; Generator::global() unless given
};

/// softmax(q k^T * scale + mask) v of each head. q: (.., H, L, E), k: (.., Hkv, S, E),
/// v: (.., Hkv, S, Ev) -> (.., H, L, Ev), or all of rank 2 for a single head. Axes before the heads
/// are broadcast; where Hkv divides H, neighbouring heads of q share one of k and v. A query that
/// sees no key gets zeros. Scores are never stored, so memory grows with L + S (Dao et al.,
/// "FlashAttention", NeurIPS 2022); only gradients of second order, and those of a mask that
/// requires one, take L x S. Dropout leaves out the same weights on every backend. 16-bit floats
/// are summed in f32. Throws ShapeError, DTypeError, DeviceError, and ValueError for a probability
/// outside [0, 1]. Gradients of any order for q, k, v and a mask that is added.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {});

}  // namespace brim
