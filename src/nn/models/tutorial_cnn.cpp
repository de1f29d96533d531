// https://pytorch.org/tutorials/beginner/blitz/cifar10_tutorial.html
#include <brim/nn/models.h>
#include <brim/ops/pool.h>
#include <brim/ops/unary.h>

#include "ops/checks.h"

namespace brim::nn {

TutorialCnn::TutorialCnn(Options o)
    : conv1(add<Conv2d>("conv1",
                        {.in = 3, .out = 6, .kernel = 5, .dtype = o.dtype, .device = o.device})),
      conv2(add<Conv2d>("conv2",
                        {.in = 6, .out = 16, .kernel = 5, .dtype = o.dtype, .device = o.device})),
      fc1(add<Linear>("fc1", {.in = 400, .out = 120, .dtype = o.dtype, .device = o.device})),
      fc2(add<Linear>("fc2", {.in = 120, .out = 84, .dtype = o.dtype, .device = o.device})),
      fc3(add<Linear>("fc3", {.in = 84, .out = o.classes, .dtype = o.dtype, .device = o.device})) {}

Tensor TutorialCnn::forward(const Tensor& x) {
  ops::check_rank("TutorialCnn", x, 4, "images (N, 3, 32, 32)");
  BRIM_CHECK(x.size(1) == 3 && x.size(2) == 32 && x.size(3) == 32, ShapeError,
             "[TutorialCnn] expects images (N, 3, 32, 32), got shape {}; resize them",
             x.shape().str());
  Tensor y = max_pool2d(relu(conv1(x)), 2);
  y = max_pool2d(relu(conv2(y)), 2).flatten(1);
  return fc3(relu(fc2(relu(fc1(y)))));
}

namespace {
const bool registered_tutorial_cnn = register_model(
    "tutorial-cnn", [](const ModelOptions& o) { return std::make_unique<TutorialCnn>(o); });
}  // namespace

}  // namespace brim::nn
