// Optimizers of 16-bit parameters, with f32 masters and without: against f32 and f64 steps, eager
// and compiled, saved and loaded.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "message_of.h"

namespace brim {
namespace {

using optim::Optimizer;
using tests::message_of;

struct Maker {
  std::string name;
  std::function<std::unique_ptr<Optimizer>(const std::vector<Tensor>&, bool masters)> make;
};

const std::vector<Maker>& makers() {
  static const auto& all = *new std::vector<Maker>{
      {"sgd",
       [](const std::vector<Tensor>& p, bool m) {
         return std::make_unique<optim::SGD>(
             p, optim::SGDOptions{.lr = 0.1, .weight_decay = 0.01, .master_weights = m});
       }},
      {"sgd_momentum",
       [](const std::vector<Tensor>& p, bool m) {
         return std::make_unique<optim::SGD>(
             p,
             optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .master_weights = m});
       }},
      {"adam",
       [](const std::vector<Tensor>& p, bool m) {
         return std::make_unique<optim::Adam>(
             p, optim::AdamOptions{.lr = 0.01, .weight_decay = 0.1, .master_weights = m});
       }},
      {"adam_amsgrad",
       [](const std::vector<Tensor>& p, bool m) {
         return std::make_unique<optim::Adam>(
             p, optim::AdamOptions{.lr = 0.01, .amsgrad = true, .master_weights = m});
       }},
      {"adamw",
       [](const std::vector<Tensor>& p, bool m) {
         return std::make_unique<optim::AdamW>(
             p, optim::AdamWOptions{.lr = 0.01, .weight_decay = 0.1, .master_weights = m});
       }},
      {"rmsprop",
       [](const std::vector<Tensor>& p, bool m) {
         return std::make_unique<optim::RMSprop>(p, optim::RMSpropOptions{.master_weights = m});
       }},
      {"rmsprop_momentum_centered",
       [](const std::vector<Tensor>& p, bool m) {
         return std::make_unique<optim::RMSprop>(
             p, optim::RMSpropOptions{.momentum = 0.9, .centered = true, .master_weights = m});
       }},
  };
  return all;
}

Tensor parameter(const std::vector<double>& values, const Shape& shape, DType dtype,
                 Device device) {
  return Tensor::from<double>(values, shape).to(dtype).to(device).set_requires_grad();
}

std::vector<double> waves(int64_t n, double phase) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(std::sin(phase + 0.37 * static_cast<double>(i)));
  return values;
}

/// The same values: all of them have 16 bits.
std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
  const Tensor t = Tensor::from<double>(values, {static_cast<int64_t>(values.size())});
  return t.to(dtype).to(f64).to_vector<double>();
}

std::vector<float> floats(const Tensor& t) {
  return t.detach().to(f32).to(Device::cpu()).contiguous().to_vector<float>();
}

class MasterWeights : public testing::TestWithParam<std::tuple<const char*, DType>> {
 protected:
  Device device = std::get<0>(GetParam());
  DType dtype = std::get<1>(GetParam());

  Tensor master(const Optimizer& o) { return o.state_dict().at("state.0.master_weight"); }
};

// Masters and states are those of f32 training with the same gradients, bit for bit on a device,
// and near f64's; parameters are masters rounded.
TEST_P(MasterWeights, TrainAsF32DoesAndRound) {
  for (const Maker& maker : makers())
    for (const int64_t n : {1, 37, 600, 5000}) {
      SCOPED_TRACE(maker.name + " of " + std::to_string(n));
      const std::vector<double> start = rounded(waves(n, 0.5), dtype);
      Tensor low = parameter(start, {n}, dtype, device), wide = parameter(start, {n}, f32, device),
             exact = parameter(start, {n}, f64, device);
      const auto a = maker.make({low}, true), b = maker.make({wide}, true),
                 c = maker.make({exact}, true);
      for (int step = 0; step < 5; ++step) {
        const std::vector<double> grad = rounded(waves(n, step), dtype);
        low.set_grad(parameter(grad, {n}, dtype, device).detach());
        wide.set_grad(parameter(grad, {n}, f32, device).detach());
        exact.set_grad(parameter(grad, {n}, f64, device).detach());
        for (const auto& o : {a.get(), b.get(), c.get()}) o->step();
        EXPECT_EQ(floats(low), floats(master(*a).to(dtype)));
      }
      EXPECT_EQ(floats(master(*a)), floats(wide));
      const std::vector<float> got = floats(master(*a)), want = floats(exact);
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5) << i;
      for (const auto& [name, state] : a->state_dict()) {
        if (name.rfind("state.", 0) != 0 || state.rank() == 0 || name == "state.0.master_weight")
          continue;
        EXPECT_EQ(state.dtype(), f32);
        EXPECT_EQ(floats(state), floats(b->state_dict().at(name))) << name;
      }
    }
}

// Without masters, what is read is 16 bits and so is what is kept; in between it is f32.
TEST_P(MasterWeights, WithoutThemEachStepIsRounded) {
  for (const Maker& maker : makers()) {
    SCOPED_TRACE(maker.name);
    constexpr int64_t kSize = 700;
    const std::vector<double> start = rounded(waves(kSize, 0.5), dtype);
    Tensor low = parameter(start, {kSize}, dtype, device),
           wide = parameter(start, {kSize}, f32, device);
    const auto a = maker.make({low}, false), b = maker.make({wide}, false);
    const std::vector<double> grad = rounded(waves(kSize, 2), dtype);
    low.set_grad(parameter(grad, {kSize}, dtype, device).detach());
    wide.set_grad(parameter(grad, {kSize}, f32, device).detach());
    a->step();
    b->step();
    EXPECT_EQ(floats(low), floats(wide.to(dtype)));
    EXPECT_EQ(a->state_dict().count("state.0.master_weight"), 0u);
    for (const auto& [name, state] : a->state_dict())
      if (name.rfind("state.", 0) == 0 && state.rank() > 0) {
        EXPECT_EQ(state.dtype(), dtype);
        EXPECT_EQ(floats(state), floats(b->state_dict().at(name).to(dtype))) << name;
      }
  }
}

// Updates below half a unit of the last place are lost without masters, and add up with them.
TEST_P(MasterWeights, KeepSmallUpdates) {
  for (const bool masters : {false, true}) {
    Tensor w = full({8}, 1, {.dtype = dtype, .device = device}).set_requires_grad();
    optim::SGD sgd({w}, {.lr = 1e-4, .master_weights = masters});
    for (int i = 0; i < 1000; ++i) {
      w.set_grad(full_like(w, 1));
      sgd.step();
    }
    EXPECT_NEAR(floats(w)[0], masters ? 0.9 : 1.0, 0.004);
  }
}

// A regression whose last digits need updates that are smaller than bf16 resolves.
TEST_P(MasterWeights, ReachALossThatRoundedWeightsDoNot) {
  const auto train = [&](DType weights, bool masters) {
    manual_seed(7);
    const Tensor x = randn({64, 16}).to(device), w0 = randn({16, 1}).to(device);
    const Tensor y = matmul(x, w0);
    Tensor w = zeros({16, 1}, {.dtype = weights, .device = device}).set_requires_grad();
    optim::AdamW adam({w}, {.lr = 2e-3, .weight_decay = 0, .master_weights = masters});
    for (int i = 0; i < 2500; ++i) {
      adam.zero_grad();
      mse_loss(matmul(x, w.to(f32)), y).backward();
      adam.step();
    }
    // The loss of what the optimizer keeps.
    const Tensor kept =
        masters && weights != f32 ? adam.state_dict().at("state.0.master_weight") : w.detach();
    return mse_loss(matmul(x, kept.to(f32)), y).item();
  };
  const double wide = train(f32, false), with = train(dtype, true), without = train(dtype, false);
  EXPECT_LT(wide, 1e-3);
  if (dtype == bf16) {
    EXPECT_LT(with, 0.02);
    EXPECT_LT(with, 0.5 * without);
  }
}

// The weights are what somebody writes into them: a master follows.
TEST_P(MasterWeights, FollowParametersThatAreWritten) {
  constexpr int64_t kSize = 600;
  Tensor w = parameter(waves(kSize, 1), {kSize}, dtype, device);
  optim::SGD sgd({w}, {.lr = 1e-4, .master_weights = true});
  const auto step = [&] {
    w.set_grad(full_like(w, 1));
    sgd.step();
  };
  step();
  {
    const NoGrad guard;
    w.fill_(4);
  }
  step();
  for (const float v : floats(master(sgd))) ASSERT_EQ(v, 4 - 1e-4f);
  for (const float v : floats(w)) ASSERT_EQ(v, 4);
}

TEST_P(MasterWeights, AnyStridesGiveTheSameNumbers) {
  for (const Maker& maker : makers())
    for (const bool masters : {false, true}) {
      SCOPED_TRACE(maker.name);
      Tensor base = Tensor::from<double>(waves(30, 0), {5, 6}).to(dtype).to(device);
      Tensor a = base.clone().t(), b = base.clone().t().contiguous();
      const Tensor grad = Tensor::from<double>(waves(5, 3), {5}).to(dtype).to(device);
      a.set_requires_grad();
      b.set_requires_grad();
      const auto first = maker.make({a}, masters), second = maker.make({b}, masters);
      for (int i = 0; i < 3; ++i) {
        a.set_grad(grad.expand({6, 5}));
        b.set_grad(grad.expand({6, 5}).contiguous());
        first->step();
        second->step();
      }
      EXPECT_EQ(floats(a), floats(b));
    }
}

TEST_P(MasterWeights, EmptyParametersAndNaNs) {
  Tensor none = zeros({0, 3}, {.dtype = dtype, .device = device}).set_requires_grad();
  Tensor w = full({2}, 1, {.dtype = dtype, .device = device}).set_requires_grad();
  optim::Adam adam({none, w}, {.master_weights = true});
  none.set_grad(zeros_like(none));
  w.set_grad(full_like(w, std::numeric_limits<double>::quiet_NaN()));
  adam.step();
  EXPECT_TRUE(std::isnan(floats(w)[1]));
}

TEST_P(MasterWeights, ResumeBitForBit) {
  for (const Maker& maker : makers()) {
    SCOPED_TRACE(maker.name);
    constexpr int64_t kSize = 37;
    const auto run = [&](Optimizer& o, Tensor& p, int from, int to) {
      for (int i = from; i < to; ++i) {
        p.set_grad(parameter(waves(kSize, i), {kSize}, dtype, device).detach());
        o.step();
      }
    };
    Tensor a = parameter(waves(kSize, 0.5), {kSize}, dtype, device), b = a.detach().clone();
    b.set_requires_grad();
    const auto whole = maker.make({a}, true), first = maker.make({b}, true);
    run(*whole, a, 0, 10);
    run(*first, b, 0, 5);
    const StateDict saved = first->state_dict();
    const auto second = maker.make({b}, false);  // the state dict has the option
    second->load_state_dict(saved);
    run(*second, b, 5, 10);
    EXPECT_EQ(floats(a), floats(b));
    EXPECT_EQ(floats(master(*whole)), floats(master(*second)));
  }
}

TEST_P(MasterWeights, CompiledStepsAreEagerOnes) {
  for (const Maker& maker : makers()) {
    SCOPED_TRACE(maker.name);
    const auto train = [&](bool compiled) {
      Tensor w = parameter(waves(24, 0.5), {4, 6}, dtype, device);
      Tensor v = parameter(waves(6, 1.5), {6}, f32, device);  // has no master
      const auto optimizer = maker.make({w, v}, true);
      const auto step = [&](const Tensor& x) {
        const Tensor loss = sum(matmul(x, w.to(f32)) * v);
        loss.backward();
        optimizer->step();
        optimizer->zero_grad();
        return loss;
      };
      auto plan = compile(step, {.passes = "exact"});
      const Tensor x = parameter(waves(12, 2), {3, 4}, f32, device).detach();
      for (int i = 0; i < 6; ++i) {
        compiled ? plan(x) : step(x);
        if (i == 3) optimizer->load_state_dict(optimizer->state_dict());  // other tensors
      }
      EXPECT_EQ(plan.stats().plans, compiled ? 2 : 0);
      std::vector<float> all = floats(w);
      for (const Tensor& t : {master(*optimizer), v.detach()})
        for (const float number : floats(t)) all.push_back(number);
      return all;
    };
    EXPECT_EQ(train(false), train(true));
  }
}

TEST_P(MasterWeights, GradientsAreClippedIn16Bits) {
  constexpr int64_t kSize = 9000;
  const std::vector<double> grad = rounded(waves(kSize, 2), dtype);
  const auto clipped = [&](DType t, const auto& clip) {
    Tensor w = zeros({kSize}, {.dtype = t, .device = device}).set_requires_grad();
    w.set_grad(parameter(grad, {kSize}, t, device).detach());
    clip(w);
    return w.grad();
  };
  const auto by_norm = [](Tensor& w) {
    const double norm = optim::clip_grad_norm_({w}, 1).item();
    EXPECT_NEAR(norm, std::sqrt(4500), 0.3);
  };
  const auto by_value = [](Tensor& w) { optim::clip_grad_value_({w}, 0.25); };
  EXPECT_EQ(floats(clipped(dtype, by_value)), floats(clipped(f32, by_value)));
  const std::vector<float> low = floats(clipped(dtype, by_norm)),
                           wide = floats(clipped(f32, by_norm));
  for (size_t i = 0; i < low.size(); ++i) ASSERT_NEAR(low[i], wide[i], 1e-4) << i;
}

TEST_P(MasterWeights, SkipStepsThatAreNotFinite) {
  Tensor w = full({3}, 1, {.dtype = dtype, .device = device}).set_requires_grad();
  optim::Adam adam({w}, {.lr = 1e-4, .master_weights = true});
  const auto step = [&](double found_inf) {
    w.set_grad(full_like(w, 1));
    adam.step_if_finite(full({}, found_inf, {.device = device}));
  };
  step(1);
  EXPECT_EQ(floats(w)[0], 1);
  step(0);
  EXPECT_NEAR(floats(master(adam))[0], 1 - 1e-4, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(OnDevices, MasterWeights,
                         testing::Combine(testing::Values("cpu", "sim:0"),
                                          testing::Values(f16, bf16)),
                         [](const auto& test) {
                           const std::string device = std::get<0>(test.param);
                           return device.substr(0, 3) + "_" +
                                  std::string(name(std::get<1>(test.param)));
                         });

TEST(MasterWeightsOption, BeginsWithTheWeightsOfOlderStateDicts) {
  Tensor w = ones({2}, {.dtype = bf16}).set_requires_grad();
  optim::Adam adam({w}, {.lr = 1e-4});
  w.set_grad(full_like(w, 1));
  adam.step();
  StateDict older = adam.state_dict();
  older.erase("group.0.master_weights");
  optim::Adam other({w}, {.lr = 1e-4, .master_weights = true});
  other.load_state_dict(older);
  EXPECT_TRUE(other.options().master_weights);
  EXPECT_EQ(other.state_dict().at("state.0.exp_avg").dtype(), f32);
  for (int i = 0; i < 200; ++i) other.step();
  EXPECT_NEAR(w.to(f32).to_vector<float>()[0], 0.98F, 4e-3F);  // bf16 alone stays 1
  older.erase("group.0.lr");
  EXPECT_THROW(other.load_state_dict(older), ValueError);

  adam.set_option("master_weights", 1);  // its state has 16 bits
  EXPECT_EQ(message_of<DeviceError>([&] { adam.step(); }),
            "[Adam] parameter 0 is bf16 on cpu, its exp_avg bf16 on cpu; make the optimizer "
            "after to(), with master_weights from the beginning, or load its state dict again");
}

TEST(MasterWeightsOption, IsOnTheWeightsDevice) {
  nn::Linear net({.in = 2, .out = 2});
  net.to(bf16);
  optim::SGD sgd(net.parameters(), {.lr = 0.5, .master_weights = true});
  const auto step = [&] {
    for (Tensor p : net.parameters()) p.set_grad(full_like(p, 1));
    sgd.step();
  };
  step();
  net.to(Device("sim"));
  EXPECT_NE(message_of<DeviceError>(step).find("its master_weight f32 on cpu"), std::string::npos);
}

}  // namespace
}  // namespace brim
