#include <brim/nn/resnet.h>

#include <brim/nn/init.h>
#include <brim/nn/models.h>
#include <brim/ops/binary.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>

#include "ops/checks.h"

namespace brim::nn {
namespace {

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

Conv2d::Options stem(const ResNet18::Options& o) {
  if (o.stem == ResNet18::Stem::small) return conv3x3(3, 64, 1, o.dtype, o.device);
  return {.in = 3,
          .out = 64,
          .kernel = 7,
          .stride = 2,
          .padding = 3,
          .bias = false,
          .dtype = o.dtype,
          .device = o.device};
}

std::unique_ptr<Sequential> two_blocks(int64_t in, int64_t out, int64_t stride,
                                       const ResNet18::Options& o) {
  auto layer = std::make_unique<Sequential>();
  layer->push<BasicBlock>(
      {.in = in, .out = out, .stride = stride, .dtype = o.dtype, .device = o.device});
  layer->push<BasicBlock>({.in = out, .out = out, .dtype = o.dtype, .device = o.device});
  return layer;
}

}  // namespace

BasicBlock::BasicBlock(Options o)
    : conv1(add<Conv2d>("conv1", conv3x3(o.in, o.out, o.stride, o.dtype, o.device))),
      bn1(add<BatchNorm2d>("bn1", {.features = o.out, .dtype = o.dtype, .device = o.device})),
      conv2(add<Conv2d>("conv2", conv3x3(o.out, o.out, 1, o.dtype, o.device))),
      bn2(add<BatchNorm2d>("bn2", {.features = o.out, .dtype = o.dtype, .device = o.device})),
      downsample(nullptr) {
  if (o.stride == 1 && o.in == o.out) return;
  auto shortcut = std::make_unique<Sequential>();
  shortcut->push<Conv2d>({.in = o.in,
                          .out = o.out,
                          .kernel = 1,
                          .stride = o.stride,
                          .bias = false,
                          .dtype = o.dtype,
                          .device = o.device});
  shortcut->push<BatchNorm2d>({.features = o.out, .dtype = o.dtype, .device = o.device});
  downsample = &add("downsample", std::move(shortcut));
}

Tensor BasicBlock::forward(const Tensor& x) {
  const Tensor y = bn2(conv2(relu(bn1(conv1(x)))));
  return relu(y + (downsample ? (*downsample)(x) : x));
}

ResNet18::ResNet18(Options o)
    : options(o),
      conv1(add<Conv2d>("conv1", stem(o))),
      bn1(add<BatchNorm2d>("bn1", {.features = 64, .dtype = o.dtype, .device = o.device})),
      layer1(add("layer1", two_blocks(64, 64, 1, o))),
      layer2(add("layer2", two_blocks(64, 128, 2, o))),
      layer3(add("layer3", two_blocks(128, 256, 2, o))),
      layer4(add("layer4", two_blocks(256, 512, 2, o))),
      fc(add<Linear>("fc", {.in = 512, .out = o.classes, .dtype = o.dtype, .device = o.device})) {
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module))
      init::kaiming_normal_(
          conv->weight, {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
  });
}

Tensor ResNet18::forward(const Tensor& x) {
  ops::check_rank("ResNet18", x, 4, "images (N, 3, H, W)");
  BRIM_CHECK(x.size(1) == 3, ShapeError, "[ResNet18] expects images (N, 3, H, W), got shape {}",
             x.shape().str());
  Tensor y = relu(bn1(conv1(x)));
  if (options.stem == Stem::imagenet) y = max_pool2d(y, 3, {.stride = 2, .padding = 1});
  y = layer4(layer3(layer2(layer1(y))));
  return fc(adaptive_avg_pool2d(y, 1).flatten(1));
}

namespace {

ModelFactory with_stem(ResNet18::Stem stem) {
  return [stem](const ModelOptions& o) {
    return std::make_unique<ResNet18>(ResNet18::Options{
        .classes = o.classes, .stem = stem, .dtype = o.dtype, .device = o.device});
  };
}

const bool registered_resnet = register_model("resnet18", with_stem(ResNet18::Stem::imagenet)) &&
                               register_model("resnet18-cifar", with_stem(ResNet18::Stem::small));

}  // namespace

}  // namespace brim::nn
