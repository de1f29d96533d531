// Steps of the tutorial's network with wider first convolutions, measured and forecast. See
// crossover.h.
#include <brim/core/stream.h>
#include <brim/nn/conv.h>
#include <brim/nn/linear.h>
#include <brim/nn/models.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/pool.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>
#include <brim/train/forecast.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "backend/sim/device.h"
#include "bench/command/crossover/crossover.h"
#include "bench/command/measure.h"
#include "core/clock.h"

namespace brim::command {
namespace {

constexpr int64_t kSide = 32, kClasses = 10;

/// PyTorch's tutorial: "Try increasing the width of your network (argument 2 of the first
/// nn.Conv2d, and argument 1 of the second nn.Conv2d - they need to be the same number), see what
/// kind of speedup you get."
struct WideTutorial : nn::Module {
  explicit WideTutorial(int64_t width, Device device)
      : conv1(add<nn::Conv2d>("conv1", {.in = 3, .out = width, .kernel = 5, .device = device})),
        conv2(add<nn::Conv2d>("conv2", {.in = width, .out = 16, .kernel = 5, .device = device})),
        fc1(add<nn::Linear>("fc1", {.in = 400, .out = 120, .device = device})),
        fc2(add<nn::Linear>("fc2", {.in = 120, .out = 84, .device = device})),
        fc3(add<nn::Linear>("fc3", {.in = 84, .out = kClasses, .device = device})) {}
  Tensor forward(const Tensor& x) override {
    const Tensor pooled = max_pool2d(relu(conv2(max_pool2d(relu(conv1(x)), 2))), 2);
    return fc3(relu(fc2(relu(fc1(pooled.flatten(1))))));
  }
  nn::Conv2d &conv1, &conv2;
  nn::Linear &fc1, &fc2, &fc3;
};

/// A training that goes on with the batch it is given.
class WideTraining {
 public:
  WideTraining(int64_t width, Device device, bool is_compiled)
      : net_(width, device),
        optimizer_(net_.named_parameters(), {.lr = 0.001, .momentum = 0.9}),
        compiled_([this](const Tensor& x, const Tensor& y) { return eager(x, y); }, {}),
        is_compiled_(is_compiled) {}
  WideTraining(const WideTraining&) = delete;
  WideTraining& operator=(const WideTraining&) = delete;

  void step(const Tensor& x, const Tensor& y) {
    if (is_compiled_)
      (void)compiled_(x, y);
    else
      (void)eager(x, y);
  }

 private:
  Tensor eager(const Tensor& x, const Tensor& y) {
    optimizer_.zero_grad();
    Tensor loss = cross_entropy(net_(x), y);
    loss.backward();
    optimizer_.step();
    return loss;
  }

  WideTutorial net_;
  optim::SGD optimizer_;
  CompiledStep<std::function<Tensor(const Tensor&, const Tensor&)>> compiled_;
  const bool is_compiled_;
};

/// A recipe of the network; known to make_model from now on.
train::Recipe wide_recipe(int64_t width) {
  static auto& known = *new std::set<int64_t>;
  train::Recipe recipe = train::load_recipe("tutorial-cnn");
  recipe.model = fmt::format("tutorial-cnn-w{}", width);
  if (known.insert(width).second)
    nn::register_model(recipe.model, [width](const nn::ModelOptions& o) {
      return std::make_unique<WideTutorial>(width, o.device);
    });
  return recipe;
}

Tensor pictures(int64_t batch) { return rand({batch, 3, kSide, kSide}) * 2 - 1; }
Tensor answers(int64_t batch) { return randint(0, kClasses, {batch}); }

}  // namespace

const char* CrossoverStep::decides() const {
  // Copies are waited for where they last longer than what they could be hidden behind.
  if (copy > compute && copy > launch) return "copies";
  return launch >= 0.9 * compute ? "launches" : "compute";
}

double CrossoverBench::on_cpu(int64_t width, int64_t batch) const {
  WideTraining training(width, Device::cpu(), mode_ == "compiled");
  const Tensor x = pictures(batch), y = answers(batch);
  return 1e-6 * measure([&] { training.step(x, y); }, {.seconds = seconds_, .warm_up = 0.1}).median;
}

CrossoverStep CrossoverBench::on_gpu(Device gpu, int64_t width, int64_t batch) const {
  WideTraining training(width, gpu, mode_ == "compiled");
  const Tensor x = pictures(batch), y = answers(batch);
  const Tensor there_x = x.to(gpu), there_y = y.to(gpu);
  const Effort effort{.seconds = seconds_, .warm_up = 0.1};
  CrossoverStep made{.width = width, .batch = batch};
  const auto timed = [&](const std::function<void()>& step) {
    return 1e-6 * measure(step, effort, gpu).median;
  };
  made.compute = timed([&] { training.step(there_x, there_y); });
  made.copy = timed([&] {
    (void)x.to(gpu);
    (void)y.to(gpu);
  });
  made.step = timed([&] { training.step(x.to(gpu), y.to(gpu)); });
  // A few steps at a time, which no queue is too short for.
  constexpr int kSteps = 4, kRounds = 9;
  std::vector<double> queued;
  for (int i = 0; i < kRounds; ++i) {
    synchronize(gpu);
    const double begin = steady_seconds();
    for (int k = 0; k < kSteps; ++k) training.step(there_x, there_y);
    queued.push_back((steady_seconds() - begin) / kSteps);
  }
  synchronize(gpu);
  made.launch = median(queued);
  return made;
}

CrossoverStep CrossoverBench::simulated(int64_t width, int64_t batch) const {
  const bool is_compiled = mode_ == "compiled";
  const train::Forecast f =
      train::forecast(wide_recipe(width), {.batch = batch,
                                           .device = Device::sim(0),
                                           .outputs = kClasses,
                                           .picture = kSide,
                                           // Eager steps: no kernel is fused with another one.
                                           .passes = is_compiled ? "" : "dead_code"});
  CrossoverStep made{.width = width,
                     .batch = batch,
                     .copy = f.copy,
                     .launch = f.launch,
                     .compute = f.step.compute};
  if (is_compiled) {  // the next batch is copied meanwhile, and the step is one launch
    made.step = f.seconds_per_step;
    return made;
  }
  made.launch = f.launch * static_cast<double>(f.step.kernels);
  made.step = f.copy + std::max(made.launch, f.step.compute);
  return made;
}

}  // namespace brim::command
