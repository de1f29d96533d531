#include <brim/nn/resnet.h>

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include <brim/nn/init.h>
#include <brim/nn/models.h>
#include <brim/ops/binary.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>

#include "ops/checks.h"

namespace brim::nn {
namespace {

Conv2d::Options conv1x1(int64_t in, int64_t out, int64_t stride, const ResidualOptions& o) {
  return {.in = in,
          .out = out,
          .kernel = 1,
          .stride = stride,
          .bias = false,
          .dtype = o.dtype,
          .device = o.device};
}
Conv2d::Options conv3x3(int64_t in, int64_t out, int64_t stride, DType dtype, Device device) {
  return {.in = in,
          .out = out,
          .kernel = 3,
          .stride = stride,
          .padding = 1,
          .bias = false,
          .dtype = dtype,
          .device = device};
}
BatchNorm2d::Options norm(int64_t features, const ResidualOptions& o) {
  return {.features = features, .dtype = o.dtype, .device = o.device};
}

/// Null where a block's result has the shape of x.
std::unique_ptr<Sequential> shortcut(const ResidualOptions& o, int64_t out) {
  if (o.stride == 1 && o.in == out) return nullptr;
  auto layers = std::make_unique<Sequential>();
  layers->push<Conv2d>(conv1x1(o.in, out, o.stride, o));
  layers->push<BatchNorm2d>(norm(out, o));
  return layers;
}

Conv2d::Options stem(const ResNet::Options& o) {
  if (o.stem == ResNet::Stem::small) return conv3x3(3, 64, 1, o.dtype, o.device);
  return {.in = 3,
          .out = 64,
          .kernel = 7,
          .stride = 2,
          .padding = 3,
          .bias = false,
          .dtype = o.dtype,
          .device = o.device};
}

template <class Block>
std::unique_ptr<Sequential> layer_of(size_t number, const ResNet::Options& o) {
  const int64_t channels = int64_t{64} << number, out = channels * Block::kExpansion;
  auto layer = std::make_unique<Sequential>();
  for (int64_t i = 0; i < ResNet::blocks(o.depth)[number]; ++i) {
    const bool is_first = i == 0;
    layer->push<Block>({.in = !is_first     ? out
                              : number == 0 ? 64
                                            : out / 2,
                        .channels = channels,
                        .stride = is_first && number > 0 ? 2 : 1,
                        .dtype = o.dtype,
                        .device = o.device});
  }
  return layer;
}
std::unique_ptr<Sequential> layer(size_t number, const ResNet::Options& o) {
  return ResNet::has_bottlenecks(o.depth) ? layer_of<Bottleneck>(number, o)
                                          : layer_of<BasicBlock>(number, o);
}

const std::map<int, std::array<int64_t, 4>>& all_depths() {
  static const std::map<int, std::array<int64_t, 4>> all{{18, {2, 2, 2, 2}},
                                                         {34, {3, 4, 6, 3}},
                                                         {50, {3, 4, 6, 3}},
                                                         {101, {3, 4, 23, 3}},
                                                         {152, {3, 8, 36, 3}}};
  return all;
}

}  // namespace

BasicBlock::BasicBlock(Options o)
    : conv1(add<Conv2d>("conv1", conv3x3(o.in, o.channels, o.stride, o.dtype, o.device))),
      bn1(add<BatchNorm2d>("bn1", norm(o.channels, o))),
      conv2(add<Conv2d>("conv2", conv3x3(o.channels, o.channels, 1, o.dtype, o.device))),
      bn2(add<BatchNorm2d>("bn2", norm(o.channels, o))),
      downsample(nullptr) {
  if (auto layers = shortcut(o, o.channels)) downsample = &add("downsample", std::move(layers));
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
  return relu(y + (downsample ? (*downsample)(x) : x));
}

Bottleneck::Bottleneck(Options o)
    : conv1(add<Conv2d>("conv1", conv1x1(o.in, o.channels, 1, o))),
      bn1(add<BatchNorm2d>("bn1", norm(o.channels, o))),
      conv2(add<Conv2d>("conv2", conv3x3(o.channels, o.channels, o.stride, o.dtype, o.device))),
      bn2(add<BatchNorm2d>("bn2", norm(o.channels, o))),
      conv3(add<Conv2d>("conv3", conv1x1(o.channels, kExpansion * o.channels, 1, o))),
      bn3(add<BatchNorm2d>("bn3", norm(kExpansion * o.channels, o))),
      downsample(nullptr) {
  if (auto layers = shortcut(o, kExpansion * o.channels))
    downsample = &add("downsample", std::move(layers));
}

Tensor Bottleneck::forward(const Tensor& x) {
  const Tensor y = bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x))))))));
  return relu(y + (downsample ? (*downsample)(x) : x));
}

std::array<int64_t, 4> ResNet::blocks(int depth) {
  const auto found = all_depths().find(depth);
  if (found == all_depths().end()) {
    std::string depths;
    for (const auto& [known, blocks] : all_depths())
      depths += fmt::format("{}{}", depths.empty() ? "" : ", ", known);
    raise<ValueError>("[ResNet] there is none of depth {}; use one of {}", depth, depths);
  }
  return found->second;
}

ResNet::ResNet(Options o)
    : options(o),
      conv1(add<Conv2d>("conv1", stem(o))),
      bn1(add<BatchNorm2d>("bn1", {.features = 64, .dtype = o.dtype, .device = o.device})),
      layer1(add("layer1", layer(0, o))),
      layer2(add("layer2", layer(1, o))),
      layer3(add("layer3", layer(2, o))),
      layer4(add("layer4", layer(3, o))),
      fc(add<Linear>("fc", {.in = has_bottlenecks(o.depth) ? 2048 : 512,
                            .out = o.classes,
                            .dtype = o.dtype,
                            .device = o.device})) {
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module))
      init::kaiming_normal_(
          conv->weight, {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
  });
}

Tensor ResNet::forward(const Tensor& x) {
  ops::check_rank("ResNet", x, 4, "images (N, 3, H, W)");
  BRIM_CHECK(x.size(1) == 3, ShapeError, "[ResNet] expects images (N, 3, H, W), got shape {}",
             x.shape().str());
  Tensor y = relu(bn1(conv1(x)));
  if (options.stem == Stem::imagenet) y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
  y = layer4(layer3(layer2(layer1(y))));
  return fc(adaptive_avg_pool2d(y, 1).flatten(1));
}

namespace {

ModelFactory of(int depth, ResNet::Stem stem) {
  return [depth, stem](const ModelOptions& o) {
    return std::make_unique<ResNet>(ResNet::Options{
        .depth = depth, .classes = o.classes, .stem = stem, .dtype = o.dtype, .device = o.device});
  };
}

/// resnet18, resnet18-cifar, resnet34, ...
bool register_all() {
  for (const auto& [depth, blocks] : all_depths()) {
    const std::string name = fmt::format("resnet{}", depth);
    register_model(name, of(depth, ResNet::Stem::imagenet));
    register_model(name + "-cifar", of(depth, ResNet::Stem::small));
  }
  return true;
}
const bool registered_resnets = register_all();

}  // namespace

}  // namespace brim::nn
