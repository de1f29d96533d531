#include <brim/nn/cifar_resnet.h>

#include <fmt/format.h>

#include <memory>

#include <brim/nn/init.h>
#include <brim/nn/models.h>
#include <brim/nn/resnet.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>

#include "ops/checks.h"

namespace brim::nn {
namespace {

const CifarResNet::Options& checked_depth(const CifarResNet::Options& o) {
  BRIM_CHECK(o.depth >= 8 && o.depth <= 1202 && o.depth % 6 == 2, ValueError,
             "[CifarResNet] there is none of depth {}; use 6 n + 2, as 8, 20 or 56", o.depth);
  return o;
}

std::unique_ptr<Sequential> blocks_of(int64_t channels, const CifarResNet::Options& o) {
  auto layer = std::make_unique<Sequential>();
  const bool is_first_layer = channels == 16;
  for (int i = 0; i < (o.depth - 2) / 6; ++i) {
    const bool changes = i == 0 && !is_first_layer;
    layer->push<BasicBlock>({.in = changes ? channels / 2 : channels,
                             .channels = channels,
                             .stride = changes ? 2 : 1,
                             .dtype = o.dtype,
                             .device = o.device});
  }
  return layer;
}

}  // namespace

CifarResNet::CifarResNet(Options o)
    : options(checked_depth(o)),
      conv1(add<Conv2d>("conv1", {.in = 3,
                                  .out = 16,
                                  .kernel = 3,
                                  .padding = 1,
                                  .bias = false,
                                  .dtype = o.dtype,
                                  .device = o.device})),
      bn1(add<BatchNorm2d>("bn1", {.features = 16, .dtype = o.dtype, .device = o.device})),
      layer1(add("layer1", blocks_of(16, o))),
      layer2(add("layer2", blocks_of(32, o))),
      layer3(add("layer3", blocks_of(64, o))),
      fc(add<Linear>("fc", {.in = 64, .out = o.classes, .dtype = o.dtype, .device = o.device})) {
  apply([](Module& module) {
    if (auto* conv = dynamic_cast<Conv2d*>(&module))
      init::kaiming_normal_(
          conv->weight, {.mode = init::FanMode::fan_out, .nonlinearity = init::Nonlinearity::relu});
  });
}

Tensor CifarResNet::forward(const Tensor& x) {
  ops::check_rank("CifarResNet", x, 4, "images (N, 3, H, W)");
  BRIM_CHECK(x.size(1) == 3, ShapeError, "[CifarResNet] expects images (N, 3, H, W), got shape {}",
             x.shape().str());
  const Tensor y = layer3(layer2(layer1(relu(bn1(conv1(x))))));
  return fc(adaptive_avg_pool2d(y, 1).flatten(1));
}

namespace {

bool register_cifar_resnets() {
  for (const int depth : {8, 20, 56})
    register_model(fmt::format("cifar-resnet{}", depth), [depth](const ModelOptions& o) {
      return std::make_unique<CifarResNet>(CifarResNet::Options{
          .depth = depth, .classes = o.classes, .dtype = o.dtype, .device = o.device});
    });
  return true;
}
const bool registered_cifar_resnets = register_cifar_resnets();

}  // namespace

}  // namespace brim::nn
