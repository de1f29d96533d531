#include <brim/nn/unet.h>

#include <brim/nn/activation.h>
#include <brim/nn/models.h>
#include <brim/ops/pool.h>
#include <brim/ops/shape.h>

#include "ops/checks.h"

namespace brim::nn {
namespace {

/// Two convolutions that keep the size, each with batch norm and ReLU.
std::unique_ptr<Sequential> two_convolutions(int64_t in, int64_t out, const UNetOptions& o) {
  auto layers = std::make_unique<Sequential>();
  for (const int64_t from : {in, out}) {
    layers->push<Conv2d>({.in = from,
                          .out = out,
                          .kernel = 3,
                          .padding = 1,
                          .bias = false,
                          .dtype = o.dtype,
                          .device = o.device});
    layers->push<BatchNorm2d>({.features = out, .dtype = o.dtype, .device = o.device});
    layers->push<ReLU>();
  }
  return layers;
}

}  // namespace

UNet::UNet(Options o)
    : options(o),
      down(add<ModuleList<Sequential>>("down")),
      up(add<ModuleList<ConvTranspose2d>>("up")),
      merge(add<ModuleList<Sequential>>("merge")),
      head(add<Conv2d>(
          "head",
          {.in = o.width, .out = o.classes, .kernel = 1, .dtype = o.dtype, .device = o.device})) {
  BRIM_CHECK(o.width > 0 && o.depth >= 0 && o.depth < 16, ValueError,
             "[UNet] width {} and depth {}: it needs a width above 0 and a depth from 0 to 15",
             o.width, o.depth);
  int64_t channels = o.in;
  for (int64_t k = 0; k <= o.depth; ++k) {
    const int64_t out = o.width << k;
    down.push(two_convolutions(channels, out, o));
    channels = out;
  }
  for (int64_t k = 0; k < o.depth; ++k) {
    const int64_t out = channels / 2;
    up.push<ConvTranspose2d>({.in = channels,
                              .out = out,
                              .kernel = 2,
                              .stride = 2,
                              .dtype = o.dtype,
                              .device = o.device});
    merge.push(two_convolutions(2 * out, out, o));
    channels = out;
  }
}

Tensor UNet::forward(const Tensor& x) {
  ops::check_rank("UNet", x, 4, "pictures (N, C, H, W)");
  const int64_t step = int64_t{1} << options.depth;
  BRIM_CHECK(x.size(1) == options.in && x.size(2) % step == 0 && x.size(3) % step == 0, ShapeError,
             "[UNet] expects pictures (N, {}, H, W) with sides that are multiples of {}, got shape "
             "{}; resize or pad them",
             options.in, step, x.shape().str());
  std::vector<Tensor> kept;
  Tensor y = down[0](x);
  for (size_t k = 1; k < down.size(); ++k) {
    kept.push_back(y);
    y = down[k](max_pool2d(y, 2));
  }
  for (size_t k = 0; k < up.size(); ++k) {
    y = merge[k](cat({kept.back(), up[k](y)}, 1));
    kept.pop_back();
  }
  return head(y);
}

namespace {

ModelFactory unet(int64_t width, int64_t depth) {
  return [=](const ModelOptions& o) {
    return std::make_unique<UNet>(UNet::Options{.in = o.input.rank() == 3 ? o.input[0] : 3,
                                                .classes = o.classes,
                                                .width = width,
                                                .depth = depth,
                                                .dtype = o.dtype,
                                                .device = o.device});
  };
}
const bool registered_unets =
    register_model("unet", unet(64, 4)) && register_model("unet-small", unet(8, 3));

}  // namespace

}  // namespace brim::nn
