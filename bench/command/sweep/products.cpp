// Products: matrices, linear layers, convolution, attention and recurrent layers, whose sizes are
// of the results; and pooling and resizing, which work on images as convolution does.
#include <brim/nn/recurrent.h>
#include <brim/ops/attention.h>
#include <brim/ops/conv.h>
#include <brim/ops/interpolate.h>
#include <brim/ops/matmul.h>
#include <brim/ops/pool.h>

#include <algorithm>
#include <memory>

#include "bench/command/sweep/operands.h"

namespace brim::command {
namespace {

const std::vector<std::string> kFormats = {"nchw", "nhwc"};

SweepRun matrix_product(const SweepCase& c, bool trains) {
  const int64_t n = c.elements, side = operand_shape("transposed", n)[0];
  const auto random = [&](const Shape& shape) { return leaf(shape, c.dtype); };
  const auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  const auto rows = [n](int64_t width) { return std::max<int64_t>(1, n / width); };
  if (c.layout == "square")
    return run_either(trains, product, random({side, side}), random({side, side}));
  if (c.layout == "transposed")
    return run_either(
        trains, [](const Tensor& a, const Tensor& b) { return matmul(a, b.t()); },
        random({side, side}), random({side, side}));
  if (c.layout == "both-transposed")
    return run_either(
        trains, [](const Tensor& a, const Tensor& b) { return matmul(a.t(), b.t()); },
        random({side, side}), random({side, side}));
  if (c.layout == "thin")
    return run_either(trains, product, random({rows(16), 256}), random({256, 16}));
  if (c.layout == "inner")  // few results of long rows
    return run_either(trains, product, random({16, rows(16)}), random({rows(16), 16}));
  if (c.layout == "vector")
    return run_either(trains, product, random({rows(256), 256}), random({256}));
  return run_either(trains, product, random({rows(1024), 32, 32}), random({rows(1024), 32, 32}));
}

SweepRun linear_layer(const SweepCase& c, bool trains) {
  const bool narrow = c.layout == "narrow";
  const int64_t in = narrow ? 128 : 256, out = narrow ? 10 : 256;
  const int64_t rows = std::max<int64_t>(1, c.elements / out);
  return run_either(
      trains, [](const Tensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b); },
      leaf({rows, in}, c.dtype), leaf({out, in}, c.dtype), leaf({out}, c.dtype));
}

void add_matrices(std::vector<SweepOp>& ops) {
  add_with_training(
      ops, "matmul", "product",
      {"square", "transposed", "both-transposed", "thin", "inner", "vector", "batched"},
      matrix_product);
  add_with_training(ops, "linear", "product", {"wide", "narrow"}, linear_layer);
  ops.push_back({"outer", "product", {"dense"}, kFloats, [](const SweepCase& c) {
                   const Shape shape = operand_shape("transposed", c.elements);
                   return forward(outer, values({shape[0]}, c.dtype), values({shape[1]}, c.dtype));
                 }});
  ops.push_back(
      {"einsum", "product", {"bij,bjk->bik", "bij,bkj->ikb"}, kFloats, [](const SweepCase& c) {
         const int64_t batch = std::max<int64_t>(1, c.elements / 1024);
         return forward(
             [formula = c.layout](const Tensor& a, const Tensor& b) {
               return einsum(formula, {a, b});
             },
             values({batch, 32, 32}, c.dtype), values({batch, 32, 32}, c.dtype));
       }});
}

struct ConvOp {
  const char* name;
  int64_t kernel, stride = 1, padding = 0, in_channels = 0, groups = 1;  // 0 in: as many as out
};
const ConvOp kConvOps[] = {
    {"conv-3x3", 3, 1, 1},
    {"conv-3x3-s2", 3, 2, 1},
    {"conv-1x1", 1},
    {"conv-5x5", 5, 1, 2},
    {"conv-7x7-s2", 7, 2, 3, 3},
    {"conv-depthwise", 3, 1, 1, 0, -1},
    {"conv-grouped", 3, 1, 1, 0, 4},
};

/// An image of `channels` that becomes one of about c.elements by a convolution of that stride.
Tensor image_for(const SweepCase& c, int64_t channels, int64_t stride) {
  Shape shape = image_shape(c.elements, channels_for(c.elements));
  if (channels > 0) shape[1] = channels;
  shape[2] *= stride;
  shape[3] *= stride;
  return in_format(values(shape, c.dtype), c.layout);
}

SweepRun convolution(const ConvOp& op, const SweepCase& c, bool trains) {
  const int64_t out = channels_for(c.elements);
  // The gradient of pictures nobody asks for.
  const Tensor x = image_for(c, op.in_channels, op.stride).set_requires_grad(op.in_channels == 0);
  const int64_t groups = op.groups < 0 ? out : op.groups;
  const Tensor w =
      in_format(values({out, x.size(1) / groups, op.kernel, op.kernel}, c.dtype), c.layout)
          .set_requires_grad();
  const Conv2dOptions options{.stride = op.stride, .padding = op.padding, .groups = groups};
  return run_either(
      trains,
      [options](const Tensor& image, const Tensor& weight, const Tensor& bias) {
        return conv2d(image, weight, bias, options);
      },
      x, w, leaf({out}, c.dtype));
}

void add_convolutions(std::vector<SweepOp>& ops) {
  for (const ConvOp& op : kConvOps)
    add_with_training(ops, op.name, "conv", kFormats,
                      [op](const SweepCase& c, bool trains) { return convolution(op, c, trains); });
  ops.push_back({"conv_transpose", "conv", kFormats, kFloats, [](const SweepCase& c) {
                   const Tensor x = image_for(c, 0, 1);
                   return forward(
                       [](const Tensor& image, const Tensor& weight) {
                         return conv_transpose2d(image, weight, {}, {.stride = 2});
                       },
                       x, values({x.size(1), x.size(1) / 4, 2, 2}, c.dtype));
                 }});
  ops.push_back({"conv1d", "conv", {"dense"}, kFloats, [](const SweepCase& c) {
                   const int64_t samples = std::max<int64_t>(1, c.elements / (16 * 256));
                   return forward([](const Tensor& x,
                                     const Tensor& w) { return conv1d(x, w, {}, {.padding = 1}); },
                                  values({samples, 16, 256}, c.dtype),
                                  values({16, 16, 3}, c.dtype));
                 }});
  ops.push_back({"im2col", "conv", {"nchw"}, kFloats, [](const SweepCase& c) {
                   return forward([](const Tensor& x) { return im2col(x, 3, {.padding = 1}); },
                                  operand(c));
                 }});
}

void add_attention(std::vector<SweepOp>& ops) {
  for (const bool causal : {false, true})
    add_with_training(ops, causal ? "attention-causal" : "attention", "product", {"dense"},
                      [causal](const SweepCase& c, bool trains) {
                        constexpr int64_t kHeads = 8, kFeatures = 64, kTokens = 128;
                        const int64_t all = std::max<int64_t>(1, c.elements / (kHeads * kFeatures));
                        const int64_t tokens = std::min(kTokens, all);
                        const Shape shape{all / tokens, kHeads, tokens, kFeatures};
                        return run_either(
                            trains,
                            [causal](const Tensor& q, const Tensor& k, const Tensor& v) {
                              return scaled_dot_product_attention(q, k, v, {.causal = causal});
                            },
                            leaf(shape, c.dtype), leaf(shape, c.dtype), leaf(shape, c.dtype));
                      });
}

/// One layer 64 wide over 16 steps.
template <class Layer>
SweepRun recurrent_layer(const SweepCase& c) {
  constexpr int64_t kWidth = 64, kSteps = 16;
  const auto layer = std::make_shared<Layer>(nn::RecurrentOptions{.in = kWidth, .hidden = kWidth});
  for (const Tensor& weight : layer->parameters()) Tensor(weight).set_requires_grad(false);
  const int64_t samples = std::max<int64_t>(1, c.elements / (kSteps * kWidth));
  return forward([layer](const Tensor& x) { return (*layer)(x); },
                 values({kSteps, samples, kWidth}, c.dtype));
}

void add_recurrent(std::vector<SweepOp>& ops) {
  ops.push_back({"lstm", "product", {"dense"}, kF32, recurrent_layer<nn::LSTM>});
  ops.push_back({"gru", "product", {"dense"}, kF32, recurrent_layer<nn::GRU>});
}

void add_pooling(std::vector<SweepOp>& ops) {
  const auto add = [&ops](const char* name, Tensor (*function)(const Tensor&)) {
    add_with_training(ops, name, "pool", kFormats, [function](const SweepCase& c, bool trains) {
      return run_either(trains, function, image_for(c, 0, 1).set_requires_grad());
    });
  };
  add("max_pool", [](const Tensor& x) { return max_pool2d(x, 2); });
  add("max_pool-3x3-s2",
      [](const Tensor& x) { return max_pool2d(x, 3, {.stride = 2, .padding = 1}); });
  add("avg_pool", [](const Tensor& x) { return avg_pool2d(x, 2); });
  add("adaptive_avg_pool", [](const Tensor& x) { return adaptive_avg_pool2d(x, 1); });
  add("upsample-nearest", [](const Tensor& x) { return interpolate(x, {.scale = 2}); });
  add("upsample-bilinear", [](const Tensor& x) {
    return interpolate(x, {.scale = 2, .mode = Interpolation::bilinear});
  });
}

}  // namespace

std::vector<SweepOp> sweep_products() {
  std::vector<SweepOp> ops;
  for (const auto add : {add_matrices, add_convolutions, add_attention, add_recurrent, add_pooling})
    add(ops);
  return ops;
}

}  // namespace brim::command
