#include <brim/nn/transformer.h>
#include <brim/ops/binary.h>
#include <brim/ops/unary.h>

#include "nn/layer.h"
#include "nn/module_calls.h"

namespace brim::nn {
namespace {

const TransformerLayerOptions& checked(const char* layer, const TransformerLayerOptions& o) {
  check_positive(layer, "dim", o.dim);
  check_positive(layer, "heads", o.heads);
  check_positive(layer, "hidden", o.hidden);
  return o;
}

MultiheadAttention::Options attention_of(const TransformerLayerOptions& o) {
  return {.dim = o.dim,
          .heads = o.heads,
          .dropout = o.dropout,
          .bias = o.bias,
          .dtype = o.dtype,
          .device = o.device};
}

Linear::Options linear_of(const TransformerLayerOptions& o, int64_t in, int64_t out) {
  return {.in = in, .out = out, .bias = o.bias, .dtype = o.dtype, .device = o.device};
}

LayerNorm::Options norm_of(const TransformerLayerOptions& o) {
  return {.shape = {o.dim}, .eps = o.eps, .bias = o.bias, .dtype = o.dtype, .device = o.device};
}

Tensor activated(const Tensor& x, TransformerActivation activation) {
  return activation == TransformerActivation::gelu ? gelu(x) : relu(x);
}

/// x and what `part` makes of it, added, the norm before or behind.
template <class Part>
Tensor residual(const Tensor& x, LayerNorm& norm, bool norm_first, const Part& part) {
  return norm_first ? x + part(norm(x)) : norm(x + part(x));
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(Options o)
    : options(checked("TransformerEncoderLayer", o)),
      self_attn(add<MultiheadAttention>("self_attn", attention_of(o))),
      linear1(add<Linear>("linear1", linear_of(o, o.dim, o.hidden))),
      dropout(add<Dropout>("dropout", {.p = o.dropout})),
      linear2(add<Linear>("linear2", linear_of(o, o.hidden, o.dim))),
      norm1(add<LayerNorm>("norm1", norm_of(o))),
      norm2(add<LayerNorm>("norm2", norm_of(o))),
      dropout1(add<Dropout>("dropout1", {.p = o.dropout})),
      dropout2(add<Dropout>("dropout2", {.p = o.dropout})) {}

Tensor TransformerEncoderLayer::feed(const Tensor& x) {
  return dropout2(linear2(dropout(activated(linear1(x), options.activation))));
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, const AttentionMask& mask) {
  const ModuleCall call(*this);
  const Tensor y = residual(x, norm1, options.norm_first,
                            [&](const Tensor& t) { return dropout1(self_attn(t, mask)); });
  return residual(y, norm2, options.norm_first, [&](const Tensor& t) { return feed(t); });
}

TransformerDecoderLayer::TransformerDecoderLayer(Options o)
    : options(checked("TransformerDecoderLayer", o)),
      self_attn(add<MultiheadAttention>("self_attn", attention_of(o))),
      multihead_attn(add<MultiheadAttention>("multihead_attn", attention_of(o))),
      linear1(add<Linear>("linear1", linear_of(o, o.dim, o.hidden))),
      dropout(add<Dropout>("dropout", {.p = o.dropout})),
      linear2(add<Linear>("linear2", linear_of(o, o.hidden, o.dim))),
      norm1(add<LayerNorm>("norm1", norm_of(o))),
      norm2(add<LayerNorm>("norm2", norm_of(o))),
      norm3(add<LayerNorm>("norm3", norm_of(o))),
      dropout1(add<Dropout>("dropout1", {.p = o.dropout})),
      dropout2(add<Dropout>("dropout2", {.p = o.dropout})),
      dropout3(add<Dropout>("dropout3", {.p = o.dropout})) {}

Tensor TransformerDecoderLayer::feed(const Tensor& x) {
  return dropout3(linear2(dropout(activated(linear1(x), options.activation))));
}

Tensor TransformerDecoderLayer::forward(const Tensor& x, const Tensor& memory,
                                        const AttentionMask& mask,
                                        const AttentionMask& memory_mask) {
  const ModuleCall call(*this);
  const bool first = options.norm_first;
  const Tensor y =
      residual(x, norm1, first, [&](const Tensor& t) { return dropout1(self_attn(t, mask)); });
  const Tensor z = residual(y, norm2, first, [&](const Tensor& t) {
    return dropout2(multihead_attn(t, memory, memory, memory_mask));
  });
  return residual(z, norm3, first, [&](const Tensor& t) { return feed(t); });
}

}  // namespace brim::nn
