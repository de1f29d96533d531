// See blocks.h.
#include "bench/command/blocks.h"

#include <cmath>
#include <vector>

#include <brim/nn/container.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/dropout.h>
#include <brim/ops/matmul.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/softmax.h>
#include <brim/ops/unary.h>

namespace brim::command {
namespace {

constexpr int64_t kHidden = kBlockExpansion * kBlockWidth;

struct TransformerBlock : nn::Module {
  explicit TransformerBlock(double dropout) : p(dropout) {}

  nn::LayerNorm& norm1 = add<nn::LayerNorm>("norm1", {.shape = {kBlockWidth}});
  nn::Linear& qkv = add<nn::Linear>("qkv", {.in = kBlockWidth, .out = 3 * kBlockWidth});
  nn::Linear& proj = add<nn::Linear>("proj", {.in = kBlockWidth, .out = kBlockWidth});
  nn::LayerNorm& norm2 = add<nn::LayerNorm>("norm2", {.shape = {kBlockWidth}});
  nn::Linear& fc1 = add<nn::Linear>("fc1", {.in = kBlockWidth, .out = kHidden});
  nn::Linear& fc2 = add<nn::Linear>("fc2", {.in = kHidden, .out = kBlockWidth});
  double p;

  Tensor forward(const Tensor& x) override {
    const Tensor y = x + dropped(proj(attention(norm1(x))));
    return y + dropped(fc2(gelu(fc1(norm2(y)))));
  }

 private:
  Tensor dropped(const Tensor& x) const { return dropout(x, p, training()); }

  /// softmax(Q K^T / sqrt(D)) V of each head, side by side.
  Tensor attention(const Tensor& x) {
    const int64_t n = x.size(0), tokens = x.size(1), features = kBlockWidth / kBlockHeads;
    const std::vector<Tensor> heads =
        unbind(qkv(x).view({n, tokens, 3, kBlockHeads, features}).permute({2, 0, 3, 1, 4}));
    const Tensor &q = heads[0], &k = heads[1], &v = heads[2];  // (N, heads, T, D)
    const double scale = 1 / std::sqrt(static_cast<double>(features));
    const Tensor weights = dropped(softmax(matmul(q, k.transpose(-1, -2)) * scale, -1));
    return matmul(weights, v).transpose(1, 2).reshape({n, tokens, kBlockWidth});
  }
};

struct ConvNextBlock : nn::Module {
  nn::Conv2d& dwconv = add<nn::Conv2d>(
      "dwconv",
      {.in = kBlockWidth, .out = kBlockWidth, .kernel = 7, .padding = 3, .groups = kBlockWidth});
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", {.shape = {kBlockWidth}, .eps = 1e-6});
  nn::Linear& pwconv1 = add<nn::Linear>("pwconv1", {.in = kBlockWidth, .out = kHidden});
  nn::Linear& pwconv2 = add<nn::Linear>("pwconv2", {.in = kHidden, .out = kBlockWidth});
  Tensor& gamma = parameter("gamma", full({kBlockWidth}, 1e-6));

  Tensor forward(const Tensor& x) override {
    const Tensor rows = norm(dwconv(x).permute({0, 2, 3, 1}));  // (N, H, W, C)
    const Tensor y = gamma * pwconv2(gelu(pwconv1(rows)));
    return mean(x + y.permute({0, 3, 1, 2}), {2, 3});
  }
};

struct MlpLayer : nn::Module {
  nn::LayerNorm& norm = add<nn::LayerNorm>("norm", {.shape = {kBlockWidth}});
  nn::Linear& fc1 = add<nn::Linear>("fc1", {.in = kBlockWidth, .out = kHidden});
  nn::Linear& fc2 = add<nn::Linear>("fc2", {.in = kHidden, .out = kBlockWidth});

  Tensor forward(const Tensor& x) override { return x + fc2(gelu(fc1(norm(x)))); }
};

}  // namespace

std::unique_ptr<nn::Module> transformer_block(double dropout) {
  return std::make_unique<TransformerBlock>(dropout);
}
std::unique_ptr<nn::Module> convnext_block() { return std::make_unique<ConvNextBlock>(); }
std::unique_ptr<nn::Module> mlp_block() {
  auto net = std::make_unique<nn::Sequential>();
  for (int64_t i = 0; i < kBlockLayers; ++i) net->push<MlpLayer>();
  return net;
}

}  // namespace brim::command
