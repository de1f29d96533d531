// Products, attention, convolution, pooling, normalisation and losses.
#include <brim/ops/attention.h>
#include <brim/ops/conv.h>
#include <brim/ops/interpolate.h>
#include <brim/ops/loss.h>
#include <brim/ops/matmul.h>
#include <brim/ops/norm.h>
#include <brim/ops/pool.h>
#include <brim/ops/recurrent.h>

#include "op_table/op_table.h"

namespace brim::tests {
namespace {

Reduction reduction(const Call& c) {
  const std::string text = c.text("reduction");
  return text == "mean" ? Reduction::mean : text == "sum" ? Reduction::sum : Reduction::none;
}

Outputs linear_of(const Call& c) { return linear(c[0], c[1], c.optional_inputs(2)("bias")); }

Outputs conv2d_of(const Call& c) {
  return conv2d(c[0], c[1], c.optional_inputs(2)("bias"),
                {.stride = c.pair("stride"),
                 .padding = c.pair("padding"),
                 .dilation = c.pair("dilation"),
                 .groups = c.get<int64_t>("groups")});
}

Outputs conv1d_of(const Call& c) {
  return conv1d(c[0], c[1], c.optional_inputs(2)("bias"),
                {.stride = c.get<int64_t>("stride"),
                 .padding = c.get<int64_t>("padding"),
                 .dilation = c.get<int64_t>("dilation"),
                 .groups = c.get<int64_t>("groups")});
}

Outputs conv_transpose2d_of(const Call& c) {
  return conv_transpose2d(c[0], c[1], c.optional_inputs(2)("bias"),
                          {.stride = c.pair("stride"),
                           .padding = c.pair("padding"),
                           .output_padding = c.pair("output_padding"),
                           .dilation = c.pair("dilation"),
                           .groups = c.get<int64_t>("groups")});
}

Outputs interpolate_of(const Call& c) {
  return interpolate(c[0], {.size = c.pair("size"),
                            .scale = c.number("scale_factor", 0),
                            .mode = c.text("mode") == "bilinear" ? Interpolation::bilinear
                                                                 : Interpolation::nearest,
                            .align_corners = c.flag("align_corners")});
}

/// Inputs: gates, weight_hh, h, c.
Outputs lstm_of(const Call& c) {
  return lstm(c[0], c[1], c[2], c[3], {.reverse = c.flag("reverse")});
}

/// Inputs: gates, weight_hh, h, [bias_hh].
Outputs gru_of(const Call& c) {
  return gru(c[0], c[1], c.optional_inputs(3)("bias"), c[2], {.reverse = c.flag("reverse")});
}

/// Inputs: q, k, v, [mask].
Outputs attention_of(const Call& c) {
  return scaled_dot_product_attention(c[0], c[1], c[2],
                                      {.mask = c.in.size() > 3 ? c[3] : Tensor(),
                                       .causal = c.flag("is_causal"),
                                       .scale = c.optional_number("scale")});
}

/// Inputs: x, [weight], [bias], [running_mean, running_var]; outputs: y, [both after the call].
Outputs batch_norm_of(const Call& c) {
  auto next = c.optional_inputs(1);
  const bool affine = c.flag("affine");  // both
  const Tensor weight = next(affine ? "affine" : "weight"), bias = next(affine ? "affine" : "bias");
  Tensor mean = next("running"), var = next("running");
  if (mean.defined()) {
    mean = mean.clone();
    var = var.clone();
  }
  const Tensor y = batch_norm(
      c[0], weight, bias, mean, var,
      {.training = c.flag("training"), .momentum = c.number("momentum"), .eps = c.number("eps")});
  return mean.defined() ? Outputs{y, mean, var} : Outputs(y);
}

Outputs layer_norm_of(const Call& c) {
  auto next = c.optional_inputs(1);
  const Tensor weight = next("weight"), bias = next("bias");
  return layer_norm(c[0], c.shape("normalized_shape"), weight, bias, c.number("eps"));
}

Outputs group_norm_of(const Call& c) {
  auto next = c.optional_inputs(1);
  const Tensor weight = next("weight"), bias = next("bias");
  return group_norm(c[0], c.get<int64_t>("num_groups"), weight, bias, c.number("eps"));
}

Outputs rms_norm_of(const Call& c) {
  return rms_norm(c[0], c.shape("normalized_shape"), c.optional_inputs(1)("weight"),
                  c.number("eps"));
}

Outputs cross_entropy_of(const Call& c) {
  return cross_entropy(c[0], c[1],
                       {.weight = c.optional_inputs(2)("weight"),
                        .ignore_index = c.get<int64_t>("ignore_index", -100),
                        .label_smoothing = c.number("label_smoothing", 0),
                        .reduction = reduction(c)});
}

Outputs nll_loss_of(const Call& c) {
  return nll_loss(c[0], c[1],
                  {.weight = c.optional_inputs(2)("weight"),
                   .ignore_index = c.get<int64_t>("ignore_index", -100),
                   .reduction = reduction(c)});
}

Outputs bce_with_logits_of(const Call& c) {
  auto next = c.optional_inputs(2);
  const Tensor weight = next("weight"), pos_weight = next("pos_weight");
  return bce_with_logits(c[0], c[1],
                         {.weight = weight, .pos_weight = pos_weight, .reduction = reduction(c)});
}

}  // namespace

OpTable layer_ops() {
  return {
      {"matmul", [](const Call& c) { return matmul(c[0], c[1]); }},
      {"bmm", [](const Call& c) { return bmm(c[0], c[1]); }},
      {"outer", [](const Call& c) { return outer(c[0], c[1]); }},
      {"linear", linear_of},
      {"scaled_dot_product_attention", attention_of},
      {"lstm", lstm_of},
      {"gru", gru_of},
      {"conv2d", conv2d_of},
      {"conv1d", conv1d_of},
      {"conv_transpose2d", conv_transpose2d_of},
      {"interpolate", interpolate_of},
      {"einsum", [](const Call& c) { return einsum(c.text("equation"), c.in); }},
      {"im2col",
       [](const Call& c) {
         return im2col(c[0], c.pair("kernel_size"),
                       {.stride = c.pair("stride"),
                        .padding = c.pair("padding"),
                        .dilation = c.pair("dilation")});
       }},
      {"max_pool2d",
       [](const Call& c) {
         return max_pool2d(c[0], c.pair("kernel_size"),
                           {.stride = c.pair("stride"),
                            .padding = c.pair("padding"),
                            .dilation = c.pair("dilation", 1),
                            .ceil_mode = c.flag("ceil_mode")});
       }},
      {"avg_pool2d",
       [](const Call& c) {
         return avg_pool2d(c[0], c.pair("kernel_size"),
                           {.stride = c.pair("stride"),
                            .padding = c.pair("padding"),
                            .ceil_mode = c.flag("ceil_mode"),
                            .count_include_pad = c.flag("count_include_pad")});
       }},
      {"adaptive_avg_pool2d",
       [](const Call& c) { return adaptive_avg_pool2d(c[0], c.pair("output_size")); }},
      {"batch_norm", batch_norm_of},
      {"layer_norm", layer_norm_of},
      {"group_norm", group_norm_of},
      {"rms_norm", rms_norm_of},
      {"cross_entropy", cross_entropy_of},
      {"nll_loss", nll_loss_of},
      {"bce_with_logits", bce_with_logits_of},
      {"mse_loss", [](const Call& c) { return mse_loss(c[0], c[1], reduction(c)); }},
      {"l1_loss", [](const Call& c) { return l1_loss(c[0], c[1], reduction(c)); }},
      {"smooth_l1_loss",
       [](const Call& c) { return smooth_l1_loss(c[0], c[1], c.number("beta"), reduction(c)); }},
      {"huber_loss",
       [](const Call& c) { return huber_loss(c[0], c[1], c.number("delta"), reduction(c)); }},
  };
}

}  // namespace brim::tests
