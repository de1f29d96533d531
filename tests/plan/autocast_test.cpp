// Compiled steps in mixed precision: the same as eager ones, and another plan for another scope.
#include <brim/autograd/autocast.h>

#include <gtest/gtest.h>

#include <brim/brim.h>

namespace brim {
namespace {

struct Network {
  Network() {
    manual_seed(11);
    net.push<nn::Conv2d>({.in = 3, .out = 6, .kernel = 3});
    net.push<nn::BatchNorm2d>({.features = 6});
    net.push<nn::ReLU>();
    net.push<nn::MaxPool2d>({.kernel = 2});
    net.push<nn::Flatten>();
    net.push<nn::Linear>({.in = 6 * 3 * 3, .out = 16});
    net.push<nn::ReLU>();
    net.push<nn::Linear>({.in = 16, .out = 4});
    sgd.emplace(net.named_parameters(), optim::SGD::Options{.lr = 0.1, .momentum = 0.9});
  }
  Tensor step(const Tensor& x, const Tensor& y, DType dtype) {
    sgd->zero_grad();
    Tensor loss;
    {
      const Autocast scope(dtype);
      loss = cross_entropy(net(x), y);
    }
    loss.backward();
    sgd->step();
    return loss;
  }
  nn::Sequential net;
  std::optional<optim::SGD> sgd;
};

void expect_close_networks(const Network& a, const Network& b, double tolerance) {
  const auto pa = a.net.parameters(), pb = b.net.parameters();
  for (size_t i = 0; i < pa.size(); ++i)
    EXPECT_LE(amax(abs(pa[i].detach() - pb[i].detach())).item(), tolerance) << "parameter " << i;
}

TEST(CompiledAutocast, EqualsEager) {
  for (const DType dtype : {f16, bf16}) {
    Network eager, compiled;
    auto step =
        compile([&](const Tensor& x, const Tensor& y) { return compiled.step(x, y, dtype); });
    const Tensor x = randn({4, 3, 8, 8}), y = randint(0, 4, {4});
    for (int i = 0; i < 5; ++i) {
      const double want = eager.step(x, y, dtype).item();
      // Fused kernels round some intermediate results in another place.
      EXPECT_NEAR(step(x, y).item(), want, (dtype == f16 ? 1e-3 : 8e-3) * want) << "step " << i;
    }
    expect_close_networks(eager, compiled, dtype == f16 ? 1e-3 : 8e-3);
    EXPECT_EQ(step.stats().plans, 1);
  }
}

TEST(CompiledAutocast, EqualsEagerBitForBitWithoutPasses) {
  Network eager, compiled;
  auto step = compile([&](const Tensor& x, const Tensor& y) { return compiled.step(x, y, bf16); },
                      {.passes = "dead_code,memory"});
  const Tensor x = randn({4, 3, 8, 8}), y = randint(0, 4, {4});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(step(x, y).item(), eager.step(x, y, bf16).item());
  expect_close_networks(eager, compiled, 0);
}

TEST(CompiledAutocast, AScopeAroundTheStepIsPartOfThePlan) {
  Tensor w = ones({2, 2}).set_requires_grad();
  auto step = compile([&](const Tensor& x) { return linear(x, w); });
  const Tensor x = ones({1, 2});
  EXPECT_EQ(step(x).dtype(), f32);
  {
    const Autocast scope(bf16);
    EXPECT_EQ(sum(linear(x, w)).item(), 4);  // a cast that is kept, and no constant of the plan
    EXPECT_EQ(step(x).dtype(), bf16);
    EXPECT_EQ(step.stats().plans, 2);
    {
      const NoGrad guard;
      w.fill_(2);
    }
    EXPECT_EQ(sum(step(x)).item(), 8);
    const Autocast other(f16);
    EXPECT_EQ(step(x).dtype(), f16);
    EXPECT_EQ(step.stats().plans, 3);
  }
  EXPECT_EQ(step(x).dtype(), f32);
  EXPECT_EQ(step.stats().plans, 3);
  EXPECT_EQ(sum(step(x)).item(), 8);
}

}  // namespace
}  // namespace brim
