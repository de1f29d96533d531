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
  /// Options of TransformerLanguageModel.
  struct Options {
    int64_t vocabulary = 256;          ///< tokens are below it
    int64_t window = 256;              ///< the longest sequence
    int64_t dim = 128;                 ///< features of a token; a multiple of heads
    int64_t heads = 4;                 ///< of the attention of each layer
    int64_t layers = 3;                ///< how many TransformerEncoderLayers
    double dropout = 0.0;              ///< in training
    DType dtype = DType::f32;          ///< of the parameters
    Device device = default_device();  ///< of the parameters
  };
  /// Throws ValueError for options out of range.
  explicit TransformerLanguageModel(Options options);
  Tensor forward(const Tensor& x) override;

  const Options options;                        ///< as given to the constructor
  Embedding &tokens, &positions;                ///< of tokens, and of places in the window
  ModuleList<TransformerEncoderLayer>& blocks;  ///< the layers
  LayerNorm& norm;                              ///< behind them
  Linear& head;                                 ///< to logits
};

}  // namespace brim::nn
