#include <brim/nn/vgg.h>

#include <fmt/format.h>

#include <array>
#include <map>
#include <string>

#include <brim/nn/activation.h>
#include <brim/nn/conv.h>
#include <brim/nn/dropout.h>
#include <brim/nn/linear.h>
#include <brim/nn/models.h>
#include <brim/nn/norm.h>
#include <brim/nn/pool.h>
#include <brim/ops/pool.h>

#include "nn/models/torchvision_init.h"
#include "ops/checks.h"

namespace brim::nn {
namespace {

constexpr std::array<int64_t, 5> kChannels{64, 128, 256, 512, 512};  // of stages
constexpr int64_t kSide = 7, kHidden = 4096;

const std::map<int, std::vector<int>>& all_stages() {
  static const std::map<int, std::vector<int>> all{
      {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};
  return all;
}

std::unique_ptr<Sequential> features_of(const Vgg::Options& o) {
  auto layers = std::make_unique<Sequential>();
  const std::vector<int> stages = Vgg::convolutions(o.depth);
  int64_t in = 3;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i) {
      const int64_t out = kChannels[stage];
      layers->push<Conv2d>(
          {.in = in, .out = out, .kernel = 3, .padding = 1, .dtype = o.dtype, .device = o.device});
      if (o.batch_norm)
        layers->push<BatchNorm2d>({.features = out, .dtype = o.dtype, .device = o.device});
      layers->push<ReLU>();
      in = out;
    }
    layers->push<MaxPool2d>({.kernel = 2});
  }
  return layers;
}

std::unique_ptr<Sequential> classifier_of(const Vgg::Options& o) {
  auto layers = std::make_unique<Sequential>();
  const auto linear = [&](int64_t in, int64_t out) {
    layers->push<Linear>({.in = in, .out = out, .dtype = o.dtype, .device = o.device});
  };
  linear(kChannels.back() * kSide * kSide, kHidden);
  layers->push<ReLU>().push<Dropout>({.p = o.dropout});
  linear(kHidden, kHidden);
  layers->push<ReLU>().push<Dropout>({.p = o.dropout});
  linear(kHidden, o.classes);
  return layers;
}

}  // namespace

std::vector<int> Vgg::convolutions(int depth) {
  const auto found = all_stages().find(depth);
  if (found == all_stages().end())
    raise<ValueError>("[Vgg] there is none of depth {}; use one of 11, 13, 16, 19", depth);
  return found->second;
}

Vgg::Vgg(Options o)
    : options(o),
      features(add("features", features_of(o))),
      classifier(add("classifier", classifier_of(o))) {
  init_as_torchvision(*this);
}

Tensor Vgg::forward(const Tensor& x) {
  ops::check_rank("Vgg", x, 4, "images (N, 3, H, W)");
  BRIM_CHECK(x.size(1) == 3 && x.size(2) >= 32 && x.size(3) >= 32, ShapeError,
             "[Vgg] expects images (N, 3, H, W) of 32 x 32 or more, got shape {}", x.shape().str());
  return classifier(adaptive_avg_pool2d(features(x), kSide).flatten(1));
}

namespace {

/// vgg11, vgg11_bn, vgg13, ..., as torchvision calls them.
bool register_all() {
  for (const auto& [depth, _] : all_stages())
    for (const bool batch_norm : {false, true})
      register_model(fmt::format("vgg{}{}", depth, batch_norm ? "_bn" : ""),
                     [depth = depth, batch_norm](const ModelOptions& o) {
                       return std::make_unique<Vgg>(Vgg::Options{.depth = depth,
                                                                 .batch_norm = batch_norm,
                                                                 .classes = o.classes,
                                                                 .dtype = o.dtype,
                                                                 .device = o.device});
                     });
  return true;
}
const bool registered_vggs = register_all();

}  // namespace

}  // namespace brim::nn
