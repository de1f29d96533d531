// Layers of transformers (Vaswani et al., "Attention is all you need", NeurIPS 2017).
#pragma once

#include <brim/nn/attention.h>
#include <brim/nn/dropout.h>
#include <brim/nn/norm.h>

namespace brim::nn {

/// What is between the linear layers.
enum class TransformerActivation : uint8_t {
  relu,  ///< max(x, 0)
  gelu   ///< exact
};

/// Of both kinds of layers.
struct TransformerLayerOptions {
  int64_t dim = 0;        ///< features; a multiple of heads
  int64_t heads = 0;      ///< of the attention
  int64_t hidden = 2048;  ///< width between the two linear layers
  double dropout = 0.1;   ///< of attention's weights, between the linear layers, before residuals
  TransformerActivation activation = TransformerActivation::relu;  ///< between the linear layers
  double eps = 1e-5;                                               ///< of the norms
  bool norm_first = false;   ///< norms before attention and linear layers, not behind the residuals
  bool bias = true;          ///< false: nothing is added
  DType dtype = DType::f32;  ///< of the parameters
  Device device = default_device();  ///< of the parameters
};

/// Self-attention, then two linear layers with an activation between them, both with a residual.
/// x: (N, L, dim) or (L, dim), batches first. Names of the state as in PyTorch: self_attn, linear1,
/// linear2, norm1, norm2.
class TransformerEncoderLayer : public Module {
 public:
  using Options = TransformerLayerOptions;  ///< of the constructor
  /// Throws ValueError for options out of range.
  explicit TransformerEncoderLayer(Options options);
  Tensor forward(const Tensor& x) override { return forward(x, {}); }
  /// The same where `mask` lets positions see each other.
  Tensor forward(const Tensor& x, const AttentionMask& mask);
  /// Calls forward().
  Tensor operator()(const Tensor& x, const AttentionMask& mask = {}) { return forward(x, mask); }

  const Options options;          ///< as given to the constructor
  MultiheadAttention& self_attn;  ///< of x to itself
  Linear& linear1;                ///< dim to hidden
  Dropout& dropout;               ///< between the linear layers
  Linear& linear2;                ///< hidden to dim
  LayerNorm &norm1, &norm2;       ///< of the attention and of the linear layers
  Dropout &dropout1, &dropout2;   ///< before both residuals

 private:
  Tensor feed(const Tensor& x);
};

/// Self-attention, attention to `memory`, then two linear layers, each with a residual. x: (N, L,
/// dim), memory: (N, S, dim), or both without N. Names of the state as in PyTorch: self_attn,
/// multihead_attn, linear1, linear2, norm1, norm2, norm3.
class TransformerDecoderLayer : public Module {
 public:
  using Options = TransformerLayerOptions;  ///< of the constructor
  /// Throws ValueError for options out of range.
  explicit TransformerDecoderLayer(Options options);
  /// mask: of x to itself, memory_mask: of x to memory.
  Tensor forward(const Tensor& x, const Tensor& memory, const AttentionMask& mask = {},
                 const AttentionMask& memory_mask = {});
  /// Calls forward().
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMask& mask = {},
                    const AttentionMask& memory_mask = {}) {
    return forward(x, memory, mask, memory_mask);
  }

  const Options options;                           ///< as given to the constructor
  MultiheadAttention &self_attn, &multihead_attn;  ///< to x itself, and to memory
  Linear& linear1;                                 ///< dim to hidden
  Dropout& dropout;                                ///< between the linear layers
  Linear& linear2;                                 ///< hidden to dim
  LayerNorm &norm1, &norm2, &norm3;                ///< of both attentions and of the linear layers
  Dropout &dropout1, &dropout2, &dropout3;         ///< before the residuals

 private:
  using Module::forward;
  Tensor feed(const Tensor& x);
};

}  // namespace brim::nn
