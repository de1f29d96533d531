// Whole training steps as CUDA graphs: learning rates, bias corrections, keys of dropout and
// skipped steps change from replay to replay, and the result is that of the eager steps, bit for
// bit. Runs on a GPU, or over the emulation (BRIM_BACKEND_PATH).
#include <gtest/gtest.h>

#include <brim/brim.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <brim/diag/account.h>

#include "core/runtime.h"
#include "diag/host_timeline.h"

namespace brim {
namespace {

constexpr int kSteps = 24;

enum class Way { eager, compiled, repeated };

/// What came of a training run.
struct Outcome {
  std::vector<std::vector<float>> numbers;
  CompileStats stats;
  std::string explained;
};

struct Task {
  std::string optimizer = "sgd";
  bool schedule = false, dropout = false, fp16 = false;
  int overflow_at = -1;  ///< the step whose loss is infinite, with fp16
};

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name,
                                                 const std::vector<Tensor>& parameters) {
  if (name == "adam") return std::make_unique<optim::Adam>(parameters, optim::Adam::Options{});
  if (name == "adamw")
    return std::make_unique<optim::AdamW>(parameters,
                                          optim::AdamW::Options{.lr = 0.01, .weight_decay = 0.1});
  return std::make_unique<optim::SGD>(
      parameters, optim::SGD::Options{.lr = 0.1, .momentum = 0.9, .dampening = 0.1});
}

class CudaStepGraph : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  }

  static std::vector<float> values(const Tensor& t) {
    return t.detach().to(Device::cpu()).to_vector<float>();
  }

  /// Trains a small network. `slots`: inputs at so many addresses take turns, as in a loader.
  static Outcome train(const Task& task, Way way, int slots = 1, int per_launch = 4) {
    const Device device = Device::cuda();
    Generator weights(3), masks(5);
    const auto make = [&](const Shape& shape) {
      return (randn(shape, {}, &weights) * 0.5).to(device).set_requires_grad();
    };
    const Tensor w = make({5, 7}), b = make({5}), v = make({7});
    std::vector<Tensor> inputs;
    for (int i = 0; i < slots; ++i) inputs.push_back(zeros({6, 7}, {.device = device}));
    Tensor total = zeros({}, {.device = device});
    Tensor slope = ones({}, {.device = device});
    const auto optimizer = make_optimizer(task.optimizer, {w, b, v});
    std::optional<optim::GradScaler> scaler;
    if (task.fp16) scaler.emplace(device, optim::GradScaler::Options{.growth_interval = 5});
    optim::Schedule schedule(*optimizer, optim::cosine_annealing_lr({.T_max = kSteps}));
    const std::function<Tensor(const Tensor&)> step = [&](const Tensor& x) {
      optimizer->zero_grad();
      Tensor loss;
      {
        const Autocast scope(task.fp16 ? f16 : f32);
        Tensor y = relu(linear(x * v, w, b));
        if (task.dropout) y = dropout(y, 0.3, true, &masks);
        if (task.dropout) y = dropout(y * 2, 0.2, true, &masks);
        loss = mean(square(y.to(f32) - 1)) * slope;
      }
      if (scaler) {
        scaler->scale(loss).backward();
        scaler->step(*optimizer);
        scaler->update();
      } else {
        loss.backward();
        optimizer->step();
      }
      total.add_(loss.detach());
      return loss;
    };
    // linear_grad: eager steps have linear's gradient from the same kernel.
    auto compiled = compile(step, {.passes = "dead_code,linear_relu,linear_grad,memory"});
    Outcome outcome;
    Generator data(11);
    const auto next = [&] {
      if (task.schedule) schedule.step();
    };
    for (int i = 0; i < kSteps;) {
      Tensor& x = inputs[static_cast<size_t>(i) % inputs.size()];
      const int count = way == Way::repeated ? std::min(per_launch, kSteps - i) : 1;
      // As many steps see the same input as one launch has, however they are queued.
      if (i % per_launch == 0 || slots > 1) x.copy_(randn({6, 7}, {}, &data));
      slope.fill_(i == task.overflow_at ? std::numeric_limits<double>::infinity() : 1.0);
      Tensor loss;
      if (way == Way::repeated) {
        loss = compiled.repeat(count, next, x);
      } else {
        loss = way == Way::eager ? step(x).detach() : compiled(x);
        next();
      }
      i += count;
      if (i % per_launch == 0) outcome.numbers.push_back(values(loss));
    }
    for (const Tensor& t : {w, b, v, total}) outcome.numbers.push_back(values(t));
    if (scaler) outcome.numbers.push_back({static_cast<float>(scaler->get_scale())});
    outcome.stats = compiled.stats();
    outcome.explained = compiled.explain();
    return outcome;
  }

  /// All but the first two launches are graphs, and they give what the eager steps give.
  static void expect_replayed(const Task& task) {
    const Outcome eager = train(task, Way::eager), compiled = train(task, Way::compiled);
    EXPECT_EQ(compiled.numbers, eager.numbers);
    EXPECT_EQ(compiled.stats.graph_replays, kSteps - 2) << compiled.explained;
    EXPECT_EQ(eager.stats.graph_replays, 0);
    if (task.overflow_at >= 0) return;
    const Outcome repeated = train(task, Way::repeated);
    EXPECT_EQ(repeated.numbers, eager.numbers);
    EXPECT_EQ(repeated.stats.graph_replays, kSteps / 4 - 2) << repeated.explained;
    EXPECT_EQ(repeated.stats.graph_nodes, compiled.stats.graph_nodes);
    EXPECT_EQ(repeated.stats.replays, kSteps);
  }
};

TEST_F(CudaStepGraph, ResultsMayBeKept) {
  const Device device = Device::cuda();
  Generator data(3);
  const Tensor w = randn({7}, {}, &data).to(device);
  const auto body = [&](const Tensor& x) { return sum(relu(x * w)); };
  auto step = compile([&](const Tensor& x) { return body(x); });
  Tensor x = zeros({6, 7}, {.device = device});
  std::vector<Tensor> losses;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < kSteps; ++i) {
    x.copy_(randn({6, 7}, {}, &data));
    expected.push_back(values(body(x)));
    losses.push_back(step(x));
  }
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(values(losses[i]), expected[i]) << i;
  EXPECT_GE(step.stats().graph_replays, kSteps - 8) << step.explain();
}

TEST_F(CudaStepGraph, Sgd) { expect_replayed({}); }
TEST_F(CudaStepGraph, SgdWithASchedule) { expect_replayed({.schedule = true}); }
TEST_F(CudaStepGraph, Adam) { expect_replayed({.optimizer = "adam"}); }
TEST_F(CudaStepGraph, AdamWWithASchedule) {
  expect_replayed({.optimizer = "adamw", .schedule = true});
}
TEST_F(CudaStepGraph, Dropout) { expect_replayed({.dropout = true}); }
TEST_F(CudaStepGraph, DropoutWithAdamAndASchedule) {
  expect_replayed({.optimizer = "adam", .schedule = true, .dropout = true});
}
TEST_F(CudaStepGraph, HalfPrecision) {
  expect_replayed({.optimizer = "adam", .schedule = true, .fp16 = true});
}
TEST_F(CudaStepGraph, HalfPrecisionWithAStepThatIsSkipped) {
  for (const char* optimizer : {"adam", "sgd"}) {
    const Task task{.optimizer = optimizer, .fp16 = true, .overflow_at = 13};
    expect_replayed(task);
    const auto numbers = train(task, Way::compiled).numbers;  // ..., w, b, v, total, scale
    EXPECT_FALSE(std::isfinite(numbers[numbers.size() - 2][0]));
    for (size_t i = 3; i <= 5; ++i)
      for (const float x : numbers[numbers.size() - i]) EXPECT_TRUE(std::isfinite(x));
  }
}

TEST_F(CudaStepGraph, EachInputSlotHasItsGraph) {
  const Task task{.optimizer = "adam", .dropout = true};
  const Outcome compiled = train(task, Way::compiled, 2);
  EXPECT_EQ(compiled.numbers, train(task, Way::eager, 2).numbers);
  // NVIDIA's libraries may want scratch, which has its memory from the second step on; then the
  // third one is the first with its addresses.
  const Device gpu = Device::cuda();
  const bool alone = runtime(gpu.kind).description(gpu.index).starts_with("emulated") &&
                     !std::getenv("BRIM_CUDA_LIBRARIES");
  EXPECT_LE(compiled.stats.graph_replays, kSteps - 2);
  EXPECT_GE(compiled.stats.graph_replays, kSteps - (alone ? 2 : 3));
  EXPECT_NE(compiled.explained.find("2 graphs"), std::string::npos) << compiled.explained;
}

TEST_F(CudaStepGraph, ALaunchMayHoldFewerSteps) {
  const Task task{.optimizer = "adam", .schedule = true, .dropout = true};
  const Outcome eager = train(task, Way::eager, 1, 7);  // 24 = 7 + 7 + 7 + 3
  const Outcome repeated = train(task, Way::repeated, 1, 7);
  EXPECT_EQ(repeated.numbers, eager.numbers);
  EXPECT_EQ(repeated.stats.graph_replays, 1);
}

TEST_F(CudaStepGraph, OnlyNumbersThatChangedAreWritten) {
  EXPECT_NE(train({}, Way::compiled).explained.find(", 1 of them with new numbers"),
            std::string::npos);
  EXPECT_NE(train({.optimizer = "adam"}, Way::compiled)
                .explained.find("replayed 22 times, 22 of them with new numbers"),
            std::string::npos);
}

// Else the device would be charged with work from the first replay to the last one, whatever the
// loop does in between.
TEST_F(CudaStepGraph, EachReplayIsQueuedWhenItIsCalled) {
  const Device device = Device::cuda();
  Tensor x = ones({16}, {.device = device});
  auto step = compile([&] { x.mul_(1.5); });
  for (int i = 0; i < 3; ++i) step();
  synchronize(device);
  const diag::Accountant accountant({device});
  for (int i = 0; i < 3; ++i) {
    const uint64_t before = diag::ticks();
    step();
    EXPECT_GE(diag::active_timeline->latest(), before);
  }
  EXPECT_GT(step.stats().graph_replays, 3);
  synchronize(device);
}

}  // namespace
}  // namespace brim
