#include <brim/nn/language_model.h>

#include <brim/nn/init.h>
#include <brim/nn/models.h>
#include <brim/ops/binary.h>

#include "ops/checks.h"

namespace brim::nn {

TransformerLanguageModel::TransformerLanguageModel(Options o)
    : options(o),
      tokens(add<Embedding>(
          "tokens", {.num = o.vocabulary, .dim = o.dim, .dtype = o.dtype, .device = o.device})),
      positions(add<Embedding>(
          "positions", {.num = o.window, .dim = o.dim, .dtype = o.dtype, .device = o.device})),
      blocks(add<ModuleList<TransformerEncoderLayer>>("blocks")),
      norm(add<LayerNorm>("norm", {.shape = {o.dim}, .dtype = o.dtype, .device = o.device})),
      head(add<Linear>("head", {.in = o.dim,
                                .out = o.vocabulary,
                                .bias = false,
                                .dtype = o.dtype,
                                .device = o.device})) {
  for (int64_t k = 0; k < o.layers; ++k)
    blocks.push<TransformerEncoderLayer>({.dim = o.dim,
                                          .heads = o.heads,
                                          .hidden = 4 * o.dim,
                                          .dropout = o.dropout,
                                          .activation = TransformerActivation::gelu,
                                          .norm_first = true,
                                          .dtype = o.dtype,
                                          .device = o.device});
  for (Embedding* table : {&tokens, &positions}) init::normal_(table->weight, 0, 0.02);
}

Tensor TransformerLanguageModel::forward(const Tensor& x) {
  ops::check_rank("TransformerLanguageModel", x, 2, "tokens (N, L)");
  BRIM_CHECK(x.size(1) <= options.window, ShapeError,
             "[TransformerLanguageModel] {} tokens, and its window has {}; cut them, or make a "
             "model of a longer window",
             x.size(1), options.window);
  Tensor y = tokens(x) + positions.weight.slice(0, 0, x.size(1));
  for (TransformerEncoderLayer& block : blocks) y = block(y, {.causal = true});
  return head(norm(y));
}

namespace {

const bool registered_language_models =
    register_model("transformer-small", [](const ModelOptions& o) {
      return std::make_unique<TransformerLanguageModel>(
          TransformerLanguageModel::Options{.vocabulary = o.classes,
                                            .window = o.input.rank() == 1 ? o.input[0] : 256,
                                            .dtype = o.dtype,
                                            .device = o.device});
    });

}  // namespace

}  // namespace brim::nn
