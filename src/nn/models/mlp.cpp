#include <brim/nn/mlp.h>

#include <brim/nn/models.h>
#include <brim/ops/norm.h>
#include <brim/ops/unary.h>

#include "core/check.h"

namespace brim::nn {
namespace {

Linear::Options layer(int64_t in, int64_t out, const Mlp::Options& o) {
  return {.in = in, .out = out, .dtype = o.dtype, .device = o.device};
}

}  // namespace

Mlp::Mlp(Options o)
    : norm(
          add<BatchNorm2d>("norm", {.features = o.features, .dtype = o.dtype, .device = o.device})),
      fc1(add<Linear>("fc1", layer(o.features, o.hidden, o))),
      fc2(add<Linear>("fc2", layer(o.hidden, o.hidden, o))),
      fc3(add<Linear>("fc3", layer(o.hidden, o.out, o))) {}

Tensor Mlp::forward(const Tensor& x) {
  const int64_t features = fc1.options.in;
  BRIM_CHECK(x.rank() >= 2 && x.numel() == x.size(0) * features, ShapeError,
             "[Mlp] expects rows of {} features, got shape {}", features, x.shape().str());
  const Tensor columns = x.reshape({x.size(0), features, 1, 1});
  // One row has no deviation, so it takes that of the rows before.
  const Tensor y = x.size(0) == 1 ? batch_norm(columns, norm.weight, norm.bias, norm.running_mean,
                                               norm.running_var, {.eps = norm.options.eps})
                                  : norm(columns);
  return fc3(relu(fc2(relu(fc1(y.flatten(1))))));
}

namespace {

const bool registered_mlp = register_model("mlp", [](const ModelOptions& o) {
  BRIM_CHECK(o.input.rank() > 0, ValueError,
             "[models] mlp must know how many features x has; give ModelOptions::input");
  return std::make_unique<Mlp>(Mlp::Options{
      .features = o.input.numel(), .out = o.classes, .dtype = o.dtype, .device = o.device});
});

}  // namespace

}  // namespace brim::nn
