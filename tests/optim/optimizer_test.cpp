// What all optimizers share: groups, options, state dicts, errors. SGD stands for the others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include <brim/autograd/autograd.h>
#include <brim/ops/create.h>
#include <brim/optim/sgd.h>

#include "message_of.h"

namespace brim {
namespace {

using optim::SGD;
using tests::message_of;

Tensor param(std::initializer_list<float> values, const Shape& shape) {
  return Tensor::from<float>(values, shape).set_requires_grad();
}

void set_grad(Tensor& p, double value) { p.set_grad(full_like(p, value)); }

TEST(Optimizer, StepsOnlyParametersWithGradients) {
  Tensor a = param({1, 2}, {2}), b = param({3}, {1});
  SGD sgd({a, b}, {.lr = 0.5});
  set_grad(a, 1);
  sgd.step();
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{0.5, 1.5}));
  EXPECT_EQ(b.item(), 3);
  sgd.zero_grad();
  EXPECT_FALSE(a.grad().defined());
  sgd.step();
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{0.5, 1.5}));
}

TEST(Optimizer, ElementsThatShareMemoryAreRefused) {
  Tensor a = param({1}, {1, 1}).expand({2, 3}).detach().set_requires_grad();
  EXPECT_EQ(
      message_of<ValueError>([&] { SGD({a}, {.lr = 1}); }),
      "[SGD] parameter 0 is expanded to shape (2, 3), so its elements share memory; clone() it "
      "first");
}

TEST(Optimizer, StepAfterOneThatThrewUpdatesOnce) {
  Tensor a = param({1}, {1}), b = param({1}, {1});
  SGD sgd({a, b}, {.lr = 0.25, .momentum = 0.5});
  set_grad(a, 1);
  set_grad(b, 1);
  sgd.step();
  EXPECT_EQ(a.item(), 0.75);
  // The state of b stays f32, so its update is refused when a is claimed already.
  const Tensor before = b.detach().clone();
  b.zero_grad();
  b.set_data(before.to(f64));
  set_grad(b, 1);
  EXPECT_THROW(sgd.step(), DeviceError);
  EXPECT_EQ(a.item(), 0.75);
  b.zero_grad();
  b.set_data(before);
  sgd.set_option("momentum", 0);
  sgd.step();
  EXPECT_EQ(a.item(), 0.5);
}

TEST(Optimizer, ZeroGradCanKeepTheTensors) {
  Tensor a = param({1}, {1});
  SGD sgd({a});
  set_grad(a, 4);
  const Tensor grad = a.grad();
  sgd.zero_grad(/*set_to_none=*/false);
  EXPECT_EQ(grad.item(), 0);
  EXPECT_TRUE(a.grad().is_same(grad));
}

TEST(Optimizer, GroupsHaveTheirOwnOptions) {
  Tensor a = param({1}, {1}), b = param({1}, {1}), c = param({1}, {1});
  SGD sgd({{.params = {a}, .options = {.lr = 0.1}}, {.params = {b}, .options = {.lr = 0.2}}});
  sgd.add_group({c}, {.lr = 0.3});
  EXPECT_EQ(sgd.num_groups(), 3u);
  for (Tensor* t : {&a, &b, &c}) set_grad(*t, 1);
  sgd.step();
  EXPECT_FLOAT_EQ(a.item<float>(), 0.9f);
  EXPECT_FLOAT_EQ(b.item<float>(), 0.8f);
  EXPECT_FLOAT_EQ(c.item<float>(), 0.7f);
  sgd.set_lr(1, 2);
  EXPECT_EQ(sgd.lr(), 0.1);
  EXPECT_EQ(sgd.lr(2), 1);
  sgd.set_lr(0.5);
  EXPECT_EQ(sgd.option("lr", 1), 0.5);
  EXPECT_EQ(sgd.parameters().size(), 3u);
  EXPECT_TRUE(sgd.parameters(1)[0].is_same(b));
  EXPECT_THROW(sgd.lr(3), IndexError);
}

TEST(Optimizer, MixedDtypesTakeOneStep) {
  Tensor a = param({1}, {1}), b = Tensor::from<double>({1}, {1}).set_requires_grad();
  SGD sgd({a, b}, {.lr = 0.25, .momentum = 0.5});
  set_grad(a, 1);
  set_grad(b, 1);
  sgd.step();
  EXPECT_EQ(a.item(), 0.75);
  EXPECT_EQ(b.item(), 0.75);
}

TEST(Optimizer, AnyStridesGiveTheSameNumbers) {
  // 2 x 3 as a transposed view, its gradient broadcast along the other axis.
  Tensor base = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  Tensor a = base.t(), b = base.t().contiguous();
  const Tensor grad = Tensor::from<float>({1, 2, 3}, {3}).expand({2, 3});
  a.set_requires_grad();
  b.set_requires_grad();
  SGD first({a}, {.lr = 0.1, .momentum = 0.9}), second({b}, {.lr = 0.1, .momentum = 0.9});
  for (int i = 0; i < 3; ++i) {
    a.set_grad(grad);
    b.set_grad(grad.contiguous());
    first.step();
    second.step();
  }
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST(Optimizer, LargeParametersAreUpdatedOnce) {
  Tensor a = zeros({100003}).set_requires_grad(), b = zeros({50001}).set_requires_grad();
  SGD sgd({a, b}, {.lr = 1, .momentum = 0.5});
  set_grad(a, 1);
  set_grad(b, 2);
  sgd.step();
  sgd.step();
  for (float v : a.to_vector<float>()) ASSERT_EQ(v, -2.5f);
  for (float v : b.to_vector<float>()) ASSERT_EQ(v, -5.0f);
}

TEST(Optimizer, StepIsNoticedByAutograd) {
  Tensor a = param({1}, {1});
  SGD sgd({a});
  set_grad(a, 1);
  const uint32_t before = a.storage()->version();
  sgd.step();
  EXPECT_GT(a.storage()->version(), before);
}

TEST(Optimizer, StateDictResumesBitForBit) {
  Tensor a = param({1, -2, 3}, {3}), b = param({1, -2, 3}, {3});
  auto run = [](SGD& sgd, Tensor& p, int from, int to) {
    for (int i = from; i < to; ++i) {
      set_grad(p, 0.1 * i - 0.3);
      sgd.step();
    }
  };
  SGD whole({{"w", a}}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  run(whole, a, 0, 10);

  SGD before({{"w", b}}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  run(before, b, 0, 5);
  StateDict state = before.state_dict();
  EXPECT_EQ(state.at("state.w.step").item<int64_t>(), 5);
  EXPECT_EQ(state.at("group.0.lr").item<double>(), 0.1);
  SGD after({{"w", b}});
  after.load_state_dict(state);
  EXPECT_EQ(after.options().momentum, 0.9);
  run(after, b, 5, 10);
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
  // The state was copied: the dict did not change with the steps.
  EXPECT_EQ(state.at("state.w.momentum_buffer").to_vector<float>(),
            before.state_dict().at("state.w.momentum_buffer").to_vector<float>());
}

TEST(Optimizer, LoadNamesEveryFaultAndChangesNothing) {
  Tensor a = param({1, 2}, {2}), b = param({1}, {1});
  SGD sgd({{"a", a}}, {.lr = 0.1, .momentum = 0.9}), other({{"b", b}}, {.lr = 0.2});
  set_grad(a, 1);
  sgd.step();
  EXPECT_EQ(message_of([&] { other.load_state_dict(sgd.state_dict()); }),
            "[SGD] the state dict does not fit: unexpected: state.a.momentum_buffer, unexpected: "
            "state.a.step; is it of another optimizer or model?");
  EXPECT_EQ(other.lr(), 0.2);
  EXPECT_EQ(other.options().momentum, 0);
  StateDict state = sgd.state_dict();
  state["state.a.momentum_buffer"] = zeros({5});
  state.erase("group.0.lr");
  EXPECT_EQ(
      message_of([&] { sgd.load_state_dict(state); }),
      "[SGD] the state dict does not fit: missing: group.0.lr, state.a.momentum_buffer is (5) "
      "f32 instead of (2) f32; is it of another optimizer or model?");
  EXPECT_EQ(sgd.lr(), 0.1);
  state = sgd.state_dict();
  for (const double steps : {-1.0, 1.5, std::nan(""), 1e300}) {
    state["state.a.step"] = Tensor::from<double>({steps}, {});
    EXPECT_EQ(message_of([&] { sgd.load_state_dict(state); }),
              fmt::format("[SGD] the state dict does not fit: state.a.step is {}; is it of another "
                          "optimizer or model?",
                          steps));
  }
}

TEST(Optimizer, OptionsByNameAreChecked) {
  Tensor a = param({1}, {1});
  SGD sgd({a}, {.lr = 0.1});
  EXPECT_EQ(message_of([&] { sgd.option("momentm"); }),
            "[SGD] there is no option 'momentm'; did you mean 'momentum'?");
  EXPECT_THROW(sgd.set_lr(-1), ValueError);
  EXPECT_THROW(sgd.set_option("nesterov", 1), ValueError);
  EXPECT_EQ(sgd.lr(), 0.1);
  EXPECT_FALSE(sgd.options().nesterov);
  EXPECT_TRUE(sgd.has_option("momentum"));
  EXPECT_FALSE(sgd.has_option("beta1"));
}

TEST(Optimizer, UnsuitableParametersAreErrors) {
  Tensor a = param({1}, {1});
  EXPECT_THROW(SGD(std::vector<Tensor>{}), ValueError);
  EXPECT_THROW(SGD({Tensor()}), ValueError);
  EXPECT_THROW(SGD({a, a}), ValueError);
  EXPECT_THROW(SGD({zeros({1}, {.dtype = i64})}), DTypeError);
  EXPECT_NE(message_of([&] { SGD({a.clone()}); }).find("made by an op"), std::string::npos);
  EXPECT_THROW(SGD({a}, {.lr = -1}), ValueError);
  EXPECT_THROW(SGD({a}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), ValueError);
  SGD sgd({a});
  EXPECT_THROW(sgd.add_group({a}, {}), ValueError);
  EXPECT_EQ(sgd.num_groups(), 1u);
}

TEST(Optimizer, MovedParametersNeedTheirStateMoved) {
  Tensor a = param({1}, {1});
  SGD sgd({a}, {.momentum = 0.9});
  set_grad(a, 1);
  sgd.step();
  a.zero_grad();
  a.set_data(a.detach().to(f64));
  set_grad(a, 1);
  EXPECT_NE(
      message_of([&] { sgd.step(); }).find("parameter 0 is f64 on cpu, its momentum_buffer f32"),
      std::string::npos);
}

}  // namespace
}  // namespace brim
