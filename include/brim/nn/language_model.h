// A network that says what comes next in a text.
#pragma once

#include <brim/nn/container.h>
#include <brim/nn/embedding.h>
#include <brim/nn/linear.h>
#include <brim/nn/module.h>
#include <brim/nn/norm.h>
#include <brim/nn/transformer.h>

namespace brim::nn {

/// A language model: tokens and learned positions, layers of causal attention and a linear layer to
/// the next token's logits (Radford et al. 2019, "Language models are unsupervised multitask
/// learners"). x: i64 (N, L), L <= window -> (N, L, vocabulary). "transformer-small" has the sizes
/// below.
class TransformerLanguageModel : public Module {
 public:
  struct Options {
    int64_t vocabulary = 256;
    int64_t window = 256;
    int64_t dim = 128;
    int64_t heads = 4;
    int64_t layers = 3;
    double dropout = 0.0;
    DType dtype = DType::f32;
    Device device = default_device();
  };
  explicit TransformerLanguageModel(Options options);
  Tensor forward(const Tensor& x) override;

  const Options options;
  Embedding &tokens, &positions;
  ModuleList<TransformerEncoderLayer>& blocks;
  LayerNorm& norm;
  Linear& head;
};

}  // namespace brim::nn
