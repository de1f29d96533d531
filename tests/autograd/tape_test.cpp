// The tape: gradients, accumulation, double backward, hooks, and its errors.
#include <gtest/gtest.h>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

#include "autograd/leaf.h"

namespace brim {
namespace {

using tests::leaf;

TEST(Tape, BroadcastGradientIsSummed) {
  Tensor a = leaf({1, 2, 3, 4, 5, 6}, {2, 3}), b = leaf({10, 20, 30}, {3});
  sum(a * b).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{10, 20, 30, 10, 20, 30}));
  EXPECT_EQ(b.grad().to_vector<double>(), (std::vector<double>{5, 7, 9}));
}

TEST(Tape, GradientsAccumulateUntilZeroed) {
  Tensor x = leaf({1, -2}, {2});
  for (int i = 0; i < 2; ++i) sum(relu(x) * 3).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 0}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Tape, DoubleBackward) {
  Tensor x = leaf({2, 3}, {2});
  const Tensor y = sum(x * x * x);
  const Tensor g = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
  EXPECT_EQ(g.to_vector<double>(), (std::vector<double>{12, 27}));
  EXPECT_FALSE(x.grad().defined());
  sum(g).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{12, 18}));
}

TEST(Tape, SecondBackwardNeedsRetain) {
  Tensor x = leaf({2}, {1});
  const Tensor y = sum(x * x);
  y.backward({}, {.retain_graph = true});
  y.backward();
  EXPECT_EQ(x.grad().item(), 8);
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(Tape, NodesThatSaveNothingRunAgain) {
  Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor shared = cat({flip(x.permute({1, 0}) * 2 + 1, {0}), x.t()}, 1);
  sum(shared.reshape({12})).backward();
  sum(shared * 2).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), std::vector<double>(6, 9));
}

TEST(Tape, SetGradNamesWhatDoesNotFit) {
  Tensor x = leaf({1, 2}, {2});
  EXPECT_THROW(x.set_grad(zeros({3}, {.dtype = f64})), ShapeError);
  EXPECT_THROW(x.set_grad(zeros({2})), DTypeError);
  x.set_grad(ones({2}, {.dtype = f64}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST(Tape, OverwrittenSavedTensorIsAnError) {
  Tensor x = leaf({2}, {1}), c = Tensor::from<double>({3}, {1});
  const Tensor y = sum(x * c);
  c.fill_(7);
  EXPECT_THROW(y.backward(), AutogradError);
}

TEST(Tape, InPlaceOnLeafNeedsNoGrad) {
  Tensor x = leaf({2}, {1});
  EXPECT_THROW(x.add_(x), AutogradError);
  const NoGrad guard;
  EXPECT_EQ(x.add_(x).item(), 4);
}

TEST(Tape, HooksSeeAndReplaceGradients) {
  Tensor x = leaf({1, 2}, {2});
  Tensor y = x * 2;
  y.retain_grad();
  y.register_hook([](const Tensor& g) { return g * 10; });
  const int id = x.register_hook([](const Tensor& g) { return g + 1; });
  sum(y).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{21, 21}));
  x.remove_hook(id);
  x.zero_grad();
  sum(x * 2).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 2}));
}

TEST(Tape, DeepGraphsDoNotOverflowTheStack) {
  Tensor x = leaf({1}, {1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = relu(y);
  y.backward();
  EXPECT_EQ(x.grad().item(), 1);
}

TEST(Tape, AnomalyModeNamesTheOp) {
  const AnomalyMode guard;
  const Tensor zero = zeros({1});
  try {
    div(zero, zero);
    FAIL() << "no error";
  } catch (const AutogradError& e) {
    EXPECT_NE(std::string(e.what()).find("div made the first NaN"), std::string::npos) << e.what();
  }
}

TEST(Tape, OpsOverTwoDevicesNameBoth) {
  EXPECT_EQ(Device::count("cuda"), 0);
  EXPECT_THROW(zeros({1}, {.device = "cuda:0"}), DeviceError);
  EXPECT_EQ(try_gpu(0), Device::cpu());
}

}  // namespace
}  // namespace brim
