// The ops of layers against PyTorch: one line per op says how a case's inputs and options become a
// call of brim. Each case runs in f64 and f32, images also in nhwc.
#include <brim/ops/conv.h>
#include <brim/ops/dropout.h>
#include <brim/ops/embedding.h>
#include <brim/ops/loss.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/pool.h>
#include <brim/ops/softmax.h>

#include "golden/golden_case.h"

namespace golden {
namespace {

brim::Pair pair(const Call& c, const char* key) {
  const auto both = c.get<std::vector<int64_t>>(key);
  return {both.at(0), both.at(1)};
}

const Table kMatmul = {
    {"matmul", [](const Call& c) { return brim::matmul(c[0], c[1]); }},
    {"linear",
     [](const Call& c) { return brim::linear(c[0], c[1], c.flag("bias") ? c[2] : Tensor()); }},
};

const Table kConv = {
    {"conv2d",
     [](const Call& c) {
       return brim::conv2d(c[0], c[1], c.flag("bias") ? c[2] : Tensor(),
                           {.stride = pair(c, "stride"),
                            .padding = pair(c, "padding"),
                            .dilation = pair(c, "dilation"),
                            .groups = c.get<int64_t>("groups")});
     }},
};

const Table kPool = {
    {"max_pool2d",
     [](const Call& c) {
       return brim::max_pool2d(c[0], pair(c, "kernel_size"),
                               {.stride = pair(c, "stride"),
                                .padding = pair(c, "padding"),
                                .dilation = pair(c, "dilation"),
                                .ceil_mode = c.flag("ceil_mode")});
     }},
    {"avg_pool2d",
     [](const Call& c) {
       return brim::avg_pool2d(c[0], pair(c, "kernel_size"),
                               {.stride = pair(c, "stride"),
                                .padding = pair(c, "padding"),
                                .ceil_mode = c.flag("ceil_mode"),
                                .count_include_pad = c.flag("count_include_pad")});
     }},
    {"adaptive_avg_pool2d",
     [](const Call& c) { return brim::adaptive_avg_pool2d(c[0], pair(c, "output_size")); }},
};

/// Inputs: x, [weight, bias], [running_mean, running_var]; outputs: y, [both after the call].
Outputs batch_norm(const Call& c) {
  const bool affine = c.flag("affine"), running = c.flag("running");
  Tensor mean, var;
  if (running) {
    mean = c.in[c.in.size() - 2].clone();
    var = c.in[c.in.size() - 1].clone();
  }
  const Tensor y = brim::batch_norm(
      c[0], affine ? c[1] : Tensor(), affine ? c[2] : Tensor(), mean, var,
      {.training = c.flag("training"), .momentum = c.number("momentum"), .eps = c.number("eps")});
  if (running) return {y, mean, var};
  return y;
}

Outputs layer_norm(const Call& c) {
  const bool weight = c.flag("weight"), bias = c.flag("bias");
  return brim::layer_norm(c[0], c.shape("normalized_shape"), weight ? c[1] : Tensor(),
                          bias ? c.back() : Tensor(), c.number("eps"));
}

const Table kNorm = {{"batch_norm", batch_norm}, {"layer_norm", layer_norm}};

const Table kSoftmax = {
    {"softmax", [](const Call& c) { return brim::softmax(c[0], c.integer("dim")); }},
    {"log_softmax", [](const Call& c) { return brim::log_softmax(c[0], c.integer("dim")); }},
};

const Table kEmbedding = {
    {"embedding",
     [](const Call& c) {
       return c.has("padding_idx") ? brim::embedding(c[0], c[1], c.get<int64_t>("padding_idx"))
                                   : brim::embedding(c[0], c[1]);
     }},
    {"dropout",
     [](const Call& c) { return brim::dropout(c[0], c.number("p"), c.flag("training")); }},
};

brim::Reduction reduction(const Call& c) {
  const std::string text = c.text("reduction");
  return text == "mean"  ? brim::Reduction::mean
         : text == "sum" ? brim::Reduction::sum
                         : brim::Reduction::none;
}

const Table kLoss = {
    {"cross_entropy",
     [](const Call& c) {
       return brim::cross_entropy(c[0], c[1],
                                  {.weight = c.flag("weight") ? c[2] : Tensor(),
                                   .ignore_index = c.get<int64_t>("ignore_index"),
                                   .label_smoothing = c.number("label_smoothing"),
                                   .reduction = reduction(c)});
     }},
    {"mse_loss", [](const Call& c) { return brim::mse_loss(c[0], c[1], reduction(c)); }},
    {"bce_with_logits",
     [](const Call& c) {
       return brim::bce_with_logits(c[0], c[1],
                                    {.weight = c.flag("weight") ? c[2] : Tensor(),
                                     .pos_weight = c.flag("pos_weight") ? c.back() : Tensor(),
                                     .reduction = reduction(c)});
     }},
};

TEST(Golden, Matmul) { run_family("matmul", kMatmul); }
TEST(Golden, Conv) { run_family("conv", kConv, {.channels_last = true}); }
TEST(Golden, Pool) { run_family("pool", kPool, {.channels_last = true}); }
TEST(Golden, Norm) { run_family("norm", kNorm, {.channels_last = true}); }
TEST(Golden, Softmax) { run_family("softmax", kSoftmax); }
TEST(Golden, Embedding) { run_family("embedding", kEmbedding); }
TEST(Golden, Loss) { run_family("loss", kLoss); }

}  // namespace
}  // namespace golden
