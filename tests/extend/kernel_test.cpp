// Ops with kernels of their own (examples/own_op): the reduction and the one with two inputs.
#include <gtest/gtest.h>

#include <cmath>

#include <brim/brim.h>
#include <brim/extend.h>

#include "message_of.h"
#include "own_op/own_ops.h"

namespace brim::tests {
namespace {

double distance_of(const Tensor& got, const Tensor& want) {
  return max(abs(got.to(Device::cpu()) - want.to(Device::cpu()))).item();
}

Tensor distances_by_ops(const Tensor& a, const Tensor& b) {
  return sum(abs(a.unsqueeze(1) - b.unsqueeze(0)), {2});
}

class OwnKernel : public testing::TestWithParam<const char*> {
 protected:
  Device device{GetParam()};
};

TEST_P(OwnKernel, Compute) {
  const Tensor x = randn({9, 5}, {.device = device});
  EXPECT_LE(distance_of(own::log_mean_exp(x.t()), log(mean(exp(x.t()), {1}))), 1e-6);
  const Tensor b = randn({4, 5}, {.device = device});
  EXPECT_LE(distance_of(own::l1_distances(x, b), distances_by_ops(x, b)), 1e-5);
}

TEST_P(OwnKernel, HaveGradients) {
  const TensorOptions leaf{.dtype = f64, .device = device, .requires_grad = true};
  const Tensor x = randn({3, 4}, leaf);
  autograd::gradcheck([](const auto& in) { return std::vector{own::log_mean_exp(in[0])}; }, {x},
                      {.second_order = true});
  autograd::gradcheck([](const auto& in) { return std::vector{own::l1_distances(in[0], in[1])}; },
                      {x, randn({2, 4}, leaf)});
}

TEST_P(OwnKernel, CompiledStepsAreTheEagerOnes) {
  const Tensor w = randn({4, 5}, {.device = device});
  const auto body = [&](const Tensor& x) {
    const Tensor d = own::l1_distances(x, w);
    return own::log_mean_exp(d * 0.5) + own::log_mean_exp(own::l1_distances(x, w) * 0.5);
  };
  const Tensor x = randn({9, 5}, {.device = device});
  auto step = compile(body);
  for (int i = 0; i < 3; ++i) EXPECT_LE(distance_of(step(x), body(x)), 1e-6) << step.explain();
  EXPECT_EQ(step.stats().recorded_launches, 7);
  EXPECT_LE(step.stats().launches, 4) << step.explain();  // what stands there twice is done once
}

INSTANTIATE_TEST_SUITE_P(Cpu, OwnKernel, testing::Values("cpu", "sim:0"));

TEST(OwnKernelErrors, SayWhatThereIs) {
  const Tensor half = zeros({2, 3}, {.dtype = f16});
  EXPECT_EQ(
      message_of<NotImplemented>([&] { (void)own::log_mean_exp(half); }),
      "[log_mean_exp] is not implemented on cpu for f16, but for f32, f64; cast with x.to(...)");
  {
    const Autocast scope(f16);
    EXPECT_EQ(own::log_mean_exp(half).dtype(), f32);
  }
  EXPECT_NE(message_of<ShapeError>([] {
              (void)own::l1_distances(zeros({2, 3}), zeros({2, 4}));
            }).find("[l1_distances] rows of (2, 3) and (2, 4)"),
            std::string::npos);
  EXPECT_NE(message_of<ShapeError>([] { (void)own::log_mean_exp(zeros({2})); }).find("(N, D)"),
            std::string::npos);
}

void nothing(const Context&, const Tensor&, Tensor&) {}
void other_nothing(const Context&, const Tensor&, Tensor&) {}
void nothing_else(const Context&, Tensor&) {}

TEST(OwnKernelErrors, DeclarationsThatDoNotFit) {
  using Kernel = extend::Kernel<void(const Context&, const Tensor&, Tensor&)>;
  EXPECT_NE(message_of([] { Kernel("test_names", {.operands = "x"}); }).find("more tensors"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              Kernel("test_no_names", {.work = extend::Work::pointwise});
            }).find("declares its work or activations, but no operands"),
            std::string::npos);
  EXPECT_TRUE(extend::register_kernel("test_twice", DeviceKind::cpu, f32, &nothing));
  EXPECT_TRUE(extend::register_kernel("test_twice", DeviceKind::cpu, f32, &nothing));
  EXPECT_NE(message_of([] {
              extend::register_kernel("test_twice", DeviceKind::cpu, f32, &other_nothing);
            }).find("'test_twice' has a kernel for cpu and f32 already"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              extend::register_kernel("test_twice", DeviceKind::cpu, f64, &nothing_else);
            }).find("'test_twice' is there already, with other operands; choose another name"),
            std::string::npos);
  const Kernel nowhere("test_nowhere");
  Tensor y = zeros({1});
  EXPECT_EQ(message_of<NotImplemented>([&] { nowhere(Device::cpu(), f32, y, y); }),
            "[test_nowhere] is not implemented on cpu for f32, nor for another dtype there; choose "
            "another device, or register a kernel or load the plugin that has it (brim/extend.h)");
}

TEST(OwnKernelGradients, SeveralOutputs) {
  const Tensor x = randn({4}, {.requires_grad = true});
  const std::vector<Tensor> y = extend::with_grad(
      "test_two", {x.detach() * 2, x.detach() * 3}, {x},
      [](extend::GradCall& g) { g.set_if_needed(0, [&] { return g.dy(0) * 2 + g.dy(1) * 3; }); });
  sum(y[0] + y[1]).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(4, 5));
}

TEST(OwnKernelGradients, OfAnInputOrOutputThatIsNotThere) {
  const auto message = [](const extend::Gradient& gradient) {
    const Tensor x = randn({4}, {.requires_grad = true});
    return message_of<IndexError>(
        [&] { sum(extend::with_grad("test_one", x.detach() * 2, {x}, gradient)).backward(); });
  };
  EXPECT_EQ(message([](extend::GradCall& g) { g.set(1, g.dy()); }),
            "[test_one] its gradient asks for input 1 of 1; they count from 0");
  EXPECT_EQ(message([](extend::GradCall& g) { g.set_if_needed(7, [&] { return g.dy(); }); }),
            "[test_one] its gradient asks for input 7 of 1; they count from 0");
  EXPECT_EQ(message([](extend::GradCall& g) { g.set(0, g.dy(2)); }),
            "[test_one] its gradient asks for output 2 of 1; they count from 0");
  EXPECT_EQ(message([](extend::GradCall& g) { g.set(0, g.has_dy(1) ? g.dy() : Tensor()); }),
            "[test_one] its gradient asks for output 1 of 1; they count from 0");
}

}  // namespace
}  // namespace brim::tests
