#include <brim/nn/mobilenet.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include <brim/nn/activation.h>
#include <brim/nn/conv.h>
#include <brim/nn/dropout.h>
#include <brim/nn/linear.h>
#include <brim/nn/models.h>
#include <brim/nn/norm.h>
#include <brim/ops/binary.h>
#include <brim/ops/pool.h>

#include "nn/models/torchvision_init.h"
#include "ops/checks.h"

namespace brim::nn {
namespace {

/// Of blocks that follow each other; the first of them strides.
struct BlockRow {
  int64_t expansion, channels, count, stride;
};
constexpr BlockRow kRows[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                              {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr int64_t kStem = 32, kHead = 1280;

/// To a multiple of 8, not below 0.9 of it.
int64_t rounded(double channels) {
  constexpr int64_t kStep = 8;
  const auto near = static_cast<int64_t>(channels + kStep / 2.0) / kStep * kStep;
  const int64_t most = std::max(kStep, near);
  return static_cast<double>(most) < 0.9 * channels ? most + kStep : most;
}

/// Dtype and device of what is made.
struct FactoryOptions {
  DType dtype;
  Device device;
};

/// A convolution without bias and its batch norm.
void push_conv(Sequential& layers, Conv2d::Options o, FactoryOptions factory) {
  o.bias = false;
  o.dtype = factory.dtype;
  o.device = factory.device;
  const int64_t out = o.out;
  layers.push<Conv2d>(o);
  layers.push<BatchNorm2d>({.features = out, .dtype = factory.dtype, .device = factory.device});
}

/// The same with ReLU6, as a module of its own.
std::unique_ptr<Sequential> conv_norm_relu6(Conv2d::Options o, FactoryOptions factory) {
  auto layers = std::make_unique<Sequential>();
  push_conv(*layers, o, factory);
  layers->push<ReLU6>();
  return layers;
}

const InvertedResidual::Options& checked(const InvertedResidual::Options& o) {
  BRIM_CHECK(
      o.in > 0 && o.out > 0 && o.expansion > 0 && (o.stride == 1 || o.stride == 2), ValueError,
      "[InvertedResidual] in = {}, out = {}, stride = {}, expansion = {}; the stride is 1 or "
      "2, the others above 0",
      o.in, o.out, o.stride, o.expansion);
  return o;
}

std::unique_ptr<Sequential> block_of(const InvertedResidual::Options& o) {
  const FactoryOptions factory{o.dtype, o.device};
  const int64_t hidden = o.in * o.expansion;
  auto layers = std::make_unique<Sequential>();
  if (o.expansion != 1)
    layers->push(conv_norm_relu6({.in = o.in, .out = hidden, .kernel = 1}, factory));
  layers->push(conv_norm_relu6({.in = hidden,
                                .out = hidden,
                                .kernel = 3,
                                .stride = o.stride,
                                .padding = 1,
                                .groups = hidden},
                               factory));
  push_conv(*layers, {.in = hidden, .out = o.out, .kernel = 1}, factory);
  return layers;
}

const MobileNetV2::Options& checked(const MobileNetV2::Options& o) {
  BRIM_CHECK(o.classes > 0 && o.width > 0 && o.width <= 64, ValueError,
             "[MobileNetV2] classes = {}, width = {}; both are above 0, and the width at most 64",
             o.classes, o.width);
  return o;
}

int64_t head_channels(const MobileNetV2::Options& o) {
  return rounded(kHead * std::max(1.0, o.width));
}

std::unique_ptr<Sequential> features_of(const MobileNetV2::Options& o) {
  const FactoryOptions factory{o.dtype, o.device};
  auto layers = std::make_unique<Sequential>();
  int64_t in = rounded(kStem * o.width);
  layers->push(
      conv_norm_relu6({.in = 3, .out = in, .kernel = 3, .stride = 2, .padding = 1}, factory));
  for (const BlockRow& row : kRows) {
    const int64_t out = rounded(static_cast<double>(row.channels) * o.width);
    for (int64_t i = 0; i < row.count; ++i) {
      layers->push<InvertedResidual>({.in = in,
                                      .out = out,
                                      .stride = i == 0 ? row.stride : 1,
                                      .expansion = row.expansion,
                                      .dtype = o.dtype,
                                      .device = o.device});
      in = out;
    }
  }
  layers->push(conv_norm_relu6({.in = in, .out = head_channels(o), .kernel = 1}, factory));
  return layers;
}

std::unique_ptr<Sequential> classifier_of(const MobileNetV2::Options& o) {
  auto layers = std::make_unique<Sequential>();
  layers->push<Dropout>({.p = o.dropout});
  layers->push<Linear>(
      {.in = head_channels(o), .out = o.classes, .dtype = o.dtype, .device = o.device});
  return layers;
}

}  // namespace

InvertedResidual::InvertedResidual(Options o)
    : options(checked(o)), conv(add("conv", block_of(o))) {}

Tensor InvertedResidual::forward(const Tensor& x) {
  const Tensor y = conv(x);
  return options.stride == 1 && options.in == options.out ? x + y : y;
}

MobileNetV2::MobileNetV2(Options o)
    : options(checked(o)),
      features(add("features", features_of(o))),
      classifier(add("classifier", classifier_of(o))) {
  init_as_torchvision(*this);
}

Tensor MobileNetV2::forward(const Tensor& x) {
  ops::check_rank("MobileNetV2", x, 4, "images (N, 3, H, W)");
  return classifier(adaptive_avg_pool2d(features(x), 1).flatten(1));
}

namespace {

const bool registered_mobilenet = register_model("mobilenet_v2", [](const ModelOptions& o) {
  return std::make_unique<MobileNetV2>(
      MobileNetV2::Options{.classes = o.classes, .dtype = o.dtype, .device = o.device});
});

}  // namespace
}  // namespace brim::nn
