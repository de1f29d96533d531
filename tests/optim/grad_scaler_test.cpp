// The dynamic loss scale: unscaling, skipped steps, growth and backoff, state, compiled steps.
#include <brim/optim/grad_scaler.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include <brim/brim.h>

namespace brim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A parameter whose gradient is `slope` everywhere.
struct Line {
  explicit Line(Device device = {}) : w(full({5}, 1.0, {.device = device})) {
    w.set_requires_grad();
  }
  Tensor loss(double slope) { return sum(w * slope); }
  void backward(const optim::GradScaler& scaler, double slope) {
    w.zero_grad();
    scaler.scale(loss(slope)).backward();
  }
  Tensor w;
};

std::vector<float> numbers(const Tensor& t) {
  return t.detach().to(Device::cpu()).to_vector<float>();
}

TEST(GradScaler, AStepIsThatOfTheUnscaledGradients) {
  Line plain, scaled;
  optim::SGD a({plain.w}, {.lr = 0.1, .momentum = 0.9}),
      b({scaled.w}, {.lr = 0.1, .momentum = 0.9});
  optim::GradScaler scaler({}, {.init_scale = 1024});
  for (int i = 0; i < 4; ++i) {
    a.zero_grad();
    plain.loss(0.3).backward();
    a.step();
    scaled.backward(scaler, 0.3);
    EXPECT_FLOAT_EQ(numbers(scaled.w.grad())[0], 1024 * 0.3f);
    scaler.step(b);
    EXPECT_FLOAT_EQ(numbers(scaled.w.grad())[0], 0.3f);
    scaler.update();
    EXPECT_EQ(numbers(plain.w), numbers(scaled.w));
  }
}

TEST(GradScaler, SkipsAStepThatOverflowsAndLowersTheScale) {
  for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
    Line line;
    optim::Adam adam({line.w}, {.lr = 0.1});
    optim::GradScaler scaler;
    EXPECT_EQ(scaler.get_scale(), 65536);
    line.backward(scaler, bad);
    scaler.step(adam);
    scaler.update();
    EXPECT_EQ(numbers(line.w), std::vector<float>(5, 1.0f));
    EXPECT_EQ(scaler.get_scale(), 32768);
    EXPECT_FALSE(adam.state_dict().contains("state.0.step"));  // as if there had been none
    line.backward(scaler, 1);
    scaler.step(adam);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 32768);
    EXPECT_EQ(adam.state_dict().at("state.0.step").item<int64_t>(), 1);
    EXPECT_NEAR(numbers(line.w)[0], 0.9, 1e-6);
  }
}

TEST(GradScaler, OneBadElementOfManySkipsAll) {
  Tensor a = ones({70000}).set_requires_grad(), b = ones({3, 4}).set_requires_grad();
  optim::SGD sgd({a, b}, {.lr = 1});
  optim::GradScaler scaler;
  a.set_grad(zeros({70000}));
  b.set_grad(zeros({3, 4}));
  a.grad().slice(0, 69999, 70000).fill_(kInfinity);
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 32768);
  // A gradient that is not row-major.
  a.set_grad(ones({70000}));
  b.set_grad(ones({4, 3}).t());
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 32768);
  EXPECT_EQ(numbers(b), std::vector<float>(12, 1 - 1 / 32768.0f));
}

TEST(GradScaler, GrowsAfterGoodStepsInARow) {
  Line line;
  optim::SGD sgd({line.w}, {.lr = 0});
  optim::GradScaler scaler(
      {}, {.init_scale = 4, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 3});
  const auto after = [&](double slope) {
    line.backward(scaler, slope);
    scaler.step(sgd);
    scaler.update();
    return scaler.get_scale();
  };
  for (const double want : {4.0, 4.0, 12.0, 12.0, 12.0, 36.0, 36.0, 36.0})
    EXPECT_EQ(after(1), want);
  EXPECT_EQ(after(kInfinity), 9);
  for (const double want : {9.0, 9.0, 27.0}) EXPECT_EQ(after(1), want);  // counted anew
}

TEST(GradScaler, DoesNotGrowPastF32) {
  Line line;
  optim::SGD sgd({line.w}, {.lr = 0});
  optim::GradScaler scaler({}, {.init_scale = 3e38, .growth_interval = 1});
  line.backward(scaler, 0);
  scaler.step(sgd);
  scaler.update();
  EXPECT_FLOAT_EQ(static_cast<float>(scaler.get_scale()), 3e38f);
}

/// Skipped steps do not count for any optimizer: the same as a run without them, bit for bit.
TEST(GradScaler, SkippedStepsDoNotCount) {
  using Make = std::function<std::unique_ptr<optim::Optimizer>(const Tensor&)>;
  const std::vector<Make> kinds = {
      [](const Tensor& w) {
        return std::make_unique<optim::SGD>(
            optim::ParameterList{w},
            optim::SGD::Options{.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
      },
      [](const Tensor& w) {
        return std::make_unique<optim::Adam>(optim::ParameterList{w},
                                             optim::Adam::Options{.amsgrad = true});
      },
      [](const Tensor& w) { return std::make_unique<optim::AdamW>(optim::ParameterList{w}); },
      [](const Tensor& w) {
        return std::make_unique<optim::RMSprop>(
            optim::ParameterList{w}, optim::RMSprop::Options{.momentum = 0.9, .centered = true});
      }};
  for (size_t k = 0; k < kinds.size(); ++k) {
    Line plain, scaled;
    const auto a = kinds[k](plain.w), b = kinds[k](scaled.w);
    optim::GradScaler scaler({}, {.init_scale = 256});
    for (const double slope : {kInfinity, 0.25, 0.5, kInfinity, kInfinity, -1.0, 0.125}) {
      scaled.backward(scaler, slope);
      scaler.step(*b);
      scaler.update();
      if (!std::isfinite(slope)) continue;
      a->zero_grad();
      plain.loss(slope).backward();
      a->step();
    }
    EXPECT_EQ(numbers(plain.w), numbers(scaled.w)) << "optimizer " << k;
    const StateDict x = a->state_dict(), y = b->state_dict();
    ASSERT_EQ(x.size(), y.size());
    for (const auto& [name, t] : x)
      EXPECT_EQ(t.to(f64).to_vector<double>(), y.at(name).to(f64).to_vector<double>()) << name;
    // A plain step after it goes on from the same count.
    a->zero_grad(), b->zero_grad();
    plain.loss(0.5).backward(), scaled.loss(0.5).backward();
    a->step(), b->step();
    EXPECT_EQ(numbers(plain.w), numbers(scaled.w)) << "optimizer " << k;
  }
}

TEST(GradScaler, UnscaledGradientsMayBeClipped) {
  Line line;
  optim::SGD sgd({line.w}, {.lr = 1});
  optim::GradScaler scaler;
  line.backward(scaler, 3);
  scaler.unscale_(sgd);
  EXPECT_FLOAT_EQ(static_cast<float>(optim::clip_grad_norm_({line.w}, 1).item()), std::sqrt(45.0f));
  scaler.step(sgd);
  scaler.update();
  EXPECT_NEAR(numbers(line.w)[0], 1 - 1 / std::sqrt(5.0), 1e-6);
}

TEST(GradScaler, WrongOrderIsAnError) {
  Line line;
  optim::SGD sgd({line.w});
  optim::GradScaler scaler;
  EXPECT_THROW(scaler.update(), ValueError);
  line.backward(scaler, 1);
  scaler.unscale_(sgd);
  EXPECT_THROW(scaler.unscale_(sgd), ValueError);
  scaler.step(sgd);
  EXPECT_THROW(scaler.step(sgd), ValueError);
  scaler.update();
  EXPECT_THROW(scaler.update(), ValueError);
  EXPECT_THROW(optim::GradScaler({}, {.init_scale = 0}), ValueError);
  EXPECT_THROW(optim::GradScaler({}, {.growth_factor = 1}), ValueError);
  EXPECT_THROW(optim::GradScaler({}, {.backoff_factor = 1}), ValueError);
  EXPECT_THROW(optim::GradScaler({}, {.growth_interval = 0}), ValueError);
}

TEST(GradScaler, StateGoesOn) {
  Line line;
  optim::SGD sgd({line.w}, {.lr = 0});
  optim::GradScaler scaler({}, {.init_scale = 8, .growth_interval = 3});
  const auto good_step = [&](optim::GradScaler& s) {
    line.backward(s, 1);
    s.step(sgd);
    s.update();
  };
  good_step(scaler), good_step(scaler);
  optim::GradScaler other;
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 8);
  good_step(other);
  EXPECT_EQ(other.get_scale(), 16);
  StateDict state = scaler.state_dict();
  state.erase("growth_tracker");
  EXPECT_THROW(other.load_state_dict(state), ValueError);
  state = scaler.state_dict();
  state["scale"] = Tensor::from<double>({-1}, {});
  EXPECT_THROW(other.load_state_dict(state), ValueError);
  state = scaler.state_dict();
  state["more"] = Tensor::from<double>({1}, {});
  EXPECT_THROW(other.load_state_dict(state), ValueError);
  EXPECT_EQ(other.get_scale(), 16);
}

/// Eagerly on the CPU, on a virtual accelerator, and compiled: the same bits.
TEST(GradScaler, CompiledAndOnAnAcceleratorItIsTheSame) {
  const std::vector<double> slopes = {kInfinity, 1, 2, kInfinity, 0.5, 0.25, 1, 1};
  const auto run = [&](Device device, bool compiled) {
    Line line(device);
    optim::Adam adam({line.w}, {.lr = 0.01});
    optim::GradScaler scaler(device, {.growth_interval = 2});
    const auto body = [&](const Tensor& slope) {
      adam.zero_grad();
      Tensor loss = sum(line.w * slope);
      scaler.scale(loss).backward();
      scaler.step(adam);
      scaler.update();
      return loss;
    };
    auto step = compile(body);
    for (const double slope : slopes) {
      const Tensor x = full({5}, slope, {.device = device});
      compiled ? void(step(x)) : void(body(x));
    }
    if (compiled) {
      EXPECT_EQ(step.stats().plans, 1);
      EXPECT_EQ(step.stats().replays, static_cast<int64_t>(slopes.size()));
    }
    std::vector<float> all = numbers(line.w);
    all.push_back(static_cast<float>(scaler.get_scale()));
    for (const auto& [name, t] : adam.state_dict())
      for (const double v : t.to(Device::cpu()).to(f64).to_vector<double>())
        all.push_back(static_cast<float>(v));
    return all;
  };
  const std::vector<float> want = run({}, false);
  EXPECT_EQ(run({}, true), want);
  if (Device::count(DeviceKind::sim) > 0) {
    EXPECT_EQ(run(Device("sim:0"), false), want);
    EXPECT_EQ(run(Device("sim:0"), true), want);
  }
}

}  // namespace
}  // namespace brim
