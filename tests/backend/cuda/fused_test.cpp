// The fused kernels of CUDA devices against the ops on the CPU, and a whole compiled training step
// made of them. (Those of convolutions: conv_pool_test.cpp.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <brim/brim.h>
#include <brim/nn/models.h>

#include "backend/conv_relu.h"
#include "backend/expect_close.h"
#include "backend/fused/fused_linear.h"
#include "backend/fused/fused_loss.h"
#include "backend/linear_layer.h"
#include "core/runtime.h"
#include "environment.h"

namespace brim {
namespace {

using tests::LinearLayer;
using tests::LinearSize;

/// Skipped where no CUDA device (nor its emulation) is.
class CudaFused : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
    manual_seed(1);
  }
  const Device cuda = Device(DeviceKind::cuda, 0);
};

double fused_tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 2e-6 : dtype == f16 ? 2e-3 : 1.6e-2;
}

constexpr LinearSize kCudaLinearSizes[] = {
    {0, 5, 3},   {1, 1, 1},   {1, 7, 1},   {3, 0, 4},   {3, 5, 0},    {4, 400, 33}, {5, 65, 13},
    {4, 84, 10}, {9, 300, 7}, {64, 36, 5}, {67, 20, 9}, {2, 3, 1100}, {130, 70, 6}};

TEST_F(CudaFused, Linear) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const LinearSize& s : kCudaLinearSizes) {
      const std::string what = std::string(name(dtype)) + " " + s.str();
      const LinearLayer l(s, dtype);
      const Tensor product = matmul(l.x.to(f64), l.weight.to(f64).t());
      for (const char* op : {"linear", "linear_relu"}) {
        const bool relus = std::string(op) == "linear_relu";
        const Tensor sum = relus ? product + l.bias.to(f64) : product;
        Tensor y = full({s.rows, s.outputs}, 7, {.dtype = dtype}).to(cuda);
        const backend::LinearKernel kernel(op);
        kernel(cuda, dtype, l.x.to(cuda), l.weight.to(cuda), relus ? l.bias.to(cuda) : Tensor(), y);
        expect_close(y, relus ? relu(sum) : sum, fused_tolerance(dtype), what);
      }
    }
}

TEST_F(CudaFused, LinearGradient) {
  static const backend::LinearGradKernel kernel("linear_grad");
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const LinearSize& s : kCudaLinearSizes)
      for (const bool with_relu : {false, true}) {
        const std::string what = std::string(name(dtype)) + " " + s.str();
        const LinearLayer l(s, dtype);
        Tensor y;
        if (with_relu) y = relu(randn(l.dy.shape())).to(dtype);
        Tensor dz = l.dy.to(f64);
        if (with_relu) dz = where(y > 0, dz, zeros({1}, {.dtype = f64}));
        Tensor dx, db, dw = full(l.weight.shape(), 7, {.dtype = dtype}).to(cuda);
        if (!with_relu || s.rows != 5) {  // all of them, and dw alone
          dx = full(l.x.shape(), 7, {.dtype = dtype}).to(cuda);
          db = full(l.bias.shape(), 7, {.dtype = dtype}).to(cuda);
        }
        kernel(cuda, dtype, l.x.to(cuda), l.weight.to(cuda), l.dy.to(cuda),
               y.defined() ? y.to(cuda) : y, dx, dw, db);
        expect_close(dw, matmul(dz.t(), l.x.to(f64)), fused_tolerance(dtype), what + ", dw");
        if (!dx.defined()) continue;
        expect_close(dx, matmul(dz, l.weight.to(f64)), fused_tolerance(dtype), what + ", dx");
        expect_close(db, sum(dz, {0}), fused_tolerance(dtype), what + ", db");
      }
}

TEST_F(CudaFused, LinearOfStridedOperands) {
  const LinearLayer l({6, 40, 9}, f32);
  const auto columns = [](const Tensor& t) { return t.t().contiguous().t(); };
  const Tensor wide = randn({6, 80}).to(cuda), x = wide.slice(1, 10, 50);
  Tensor y = zeros({6, 9}).to(cuda);
  const backend::LinearKernel forward("linear");
  forward(cuda, f32, x, l.weight.to(cuda), Tensor(), y);
  const Tensor x_here = x.to(Device::cpu());
  expect_close(y, matmul(x_here, l.weight.t()), 1e-5, "a slice of x");

  static const backend::LinearGradKernel kernel("linear_grad");
  Tensor dx = zeros({6, 40}).to(cuda), dw = zeros({9, 40}).to(cuda), db = zeros({9}).to(cuda);
  kernel(cuda, f32, x, columns(l.weight.to(cuda)), columns(l.dy.to(cuda)), Tensor(), dx, dw, db);
  expect_close(dx, matmul(l.dy, l.weight), 1e-5, "dx");
  expect_close(dw, matmul(l.dy.t(), x_here), 1e-5, "dw");
  expect_close(db, sum(l.dy, {0}), 1e-5, "db");
  Tensor strided = zeros({40, 9}).to(cuda).t();
  EXPECT_THROW(kernel(cuda, f32, x, l.weight.to(cuda), l.dy.to(cuda), {}, dx, strided, db),
               NotImplemented);
}

TEST_F(CudaFused, LinearPassesNaNOn) {
  LinearLayer l({5, 30, 8}, f32);
  l.x.slice(0, 1, 2).fill_(std::numeric_limits<double>::quiet_NaN());
  Tensor y = zeros({5, 8}).to(cuda), db;
  const backend::LinearKernel forward("linear_relu");
  forward(cuda, f32, l.x.to(cuda), l.weight.to(cuda), Tensor(), y);
  expect_close(y, relu(matmul(l.x, l.weight.t())), 1e-5, "NaN in x");
  l.dy.slice(0, 2, 3).fill_(std::numeric_limits<double>::quiet_NaN());
  Tensor dx = zeros({5, 30}).to(cuda), dw = zeros({8, 30}).to(cuda);
  static const backend::LinearGradKernel kernel("linear_grad");
  kernel(cuda, f32, l.x.to(cuda), l.weight.to(cuda), l.dy.to(cuda), {}, dx, dw, db);
  expect_close(dx, matmul(l.dy, l.weight), 1e-5, "NaN in dy, dx");
  expect_close(dw, matmul(l.dy.t(), l.x), 1e-5, "NaN in dy, dw");
}

/// One block for few rows, several launches for more.
TEST_F(CudaFused, LossAndItsGradient) {
  static const backend::FusedLossKernel kernel("softmax_cross_entropy");
  using backend::ClassLoss;
  using backend::LossShape;
  for (const int64_t rows : {0, 1, 4, 70, 140})
    for (const LossShape shape : {LossShape::mean, LossShape::sum, LossShape::single})
      for (const double smoothing : {0.0, 0.1}) {
        const Tensor x = randn({rows, 11}) * 3, weight = rand({11}) + 0.5;
        Tensor target = floor(rand({rows}) * 11).to(i64);
        if (rows > 2) target.slice(0, 1, 2).fill_(-100);
        const ClassLoss options{.ignore_index = -100, .smoothing = smoothing, .shape = shape};
        const Shape loss_shape = shape == LossShape::single ? Shape({rows}) : Shape({});
        Tensor loss = zeros(loss_shape), dx = full({rows, 11}, 7);
        Tensor loss_there = loss.to(cuda), dx_there = dx.to(cuda);
        kernel(Device::cpu(), f32, x, target, weight, loss, dx, options);
        kernel(cuda, f32, x.to(cuda), target.to(cuda), weight.to(cuda), loss_there, dx_there,
               options);
        expect_close(loss_there, loss, 1e-6, "loss of " + std::to_string(rows));
        expect_close(dx_there, dx, 1e-6, "gradient of " + std::to_string(rows));
      }
}

/// A perceptron with its loss, compiled on a device; the results of a step: loss and gradients.
struct Perceptron {
  std::vector<Tensor> weights, biases;
  Tensor class_weight;
  CrossEntropyOptions options;
  bool with_x_grad = true, with_logits = false;

  Perceptron(const std::vector<int64_t>& sizes, bool with_bias, Device device) {
    for (size_t k = 0; k + 1 < sizes.size(); ++k) {
      const Tensor w = randn({sizes[k + 1], sizes[k]}) / 3, b = randn({sizes[k + 1]});
      weights.push_back(w.to(device).set_requires_grad());
      biases.push_back(with_bias ? b.to(device).set_requires_grad() : Tensor());
    }
  }
  std::vector<Tensor> operator()(const Tensor& input, const Tensor& target) const {
    const Tensor scale = full({}, 1.5, {.device = input.device()}).set_requires_grad(with_x_grad);
    Tensor x = (input * scale).slice(1, 0, weights[0].shape()[1]);
    for (size_t k = 0; k < weights.size(); ++k) {
      x = linear(x, weights[k], biases[k]);
      if (k + 1 < weights.size()) x = relu(x);
    }
    const Tensor loss = cross_entropy(x, target, options);
    std::vector<Tensor> leaves, results{loss};
    if (with_logits) results.push_back(x);
    if (with_x_grad) leaves.push_back(scale);
    for (size_t k = 0; k < weights.size(); ++k) {
      leaves.push_back(weights[k]);
      if (biases[k].defined()) leaves.push_back(biases[k]);
    }
    for (const Tensor& g : autograd::grad(std::vector<Tensor>{loss}, leaves)) results.push_back(g);
    return results;
  }
};

struct HeadCase {
  int64_t rows;
  std::vector<int64_t> sizes;
  bool bias = true, x_grad = true, logits = false;
  Reduction reduction = Reduction::mean;
  double smoothing = 0;
  bool whole = true;  ///< all layers are in the head
  int64_t more = 0;   ///< columns of the input that the first layer does not see
};

TEST_F(CudaFused, HeadsOfClassifiers) {
  const HeadCase cases[] = {
      {.rows = 4, .sizes = {120, 84, 10}},
      {.rows = 1, .sizes = {5, 3}, .x_grad = false},
      {.rows = 7, .sizes = {33, 17, 9, 5, 3}, .bias = false},
      {.rows = 3, .sizes = {8, 9, 7, 6, 5, 4}, .whole = false},
      {.rows = 9, .sizes = {31, 2, 4}, .logits = true, .smoothing = 0.1},
      {.rows = 40, .sizes = {6, 11}, .reduction = Reduction::sum},
      {.rows = 4, .sizes = {400, 120, 6}, .whole = false},
      {.rows = 5, .sizes = {10, 6}, .more = 2},  // rows of x are aligned, their copies are not
  };
  for (const HeadCase& c : cases) {
    std::vector<std::vector<Tensor>> results;
    for (const auto& [device, passes] :
         {std::pair{Device::cpu(), ""}, {cuda, "-classifier_head"}, {cuda, ""}}) {
      manual_seed(7);
      Perceptron net(c.sizes, c.bias, device);
      net.with_x_grad = c.x_grad, net.with_logits = c.logits;
      net.options = {.label_smoothing = c.smoothing, .reduction = c.reduction};
      Tensor target = floor(rand({c.rows}) * static_cast<double>(c.sizes.back())).to(i64);
      if (c.rows > 2) target.slice(0, 1, 2).fill_(-100);
      const Tensor x = randn({c.rows, c.sizes[0] + c.more});
      auto step =
          compile([&](const Tensor& a, const Tensor& b) { return net(a, b); }, {.passes = passes});
      (void)step(x.to(device), target.to(device));
      results.push_back(step(x.to(device), target.to(device)));
      const std::string plan = step.explain();
      const bool fused = device != Device::cpu() && passes[0] == 0;
      EXPECT_EQ(plan.find("classifier_head ") != std::string::npos, fused) << plan;
      EXPECT_EQ(fused && plan.find("linear_grad ") == std::string::npos, fused && c.whole) << plan;
    }
    for (size_t device : {1, 2})
      for (size_t i = 0; i < results[0].size(); ++i)
        expect_close(results[device][i], results[0][i], 1e-5,
                     std::to_string(c.rows) + " rows, result " + std::to_string(i));
    for (size_t i = 0; i < results[0].size(); ++i) {  // what the pass says of itself
      const Tensor apart = results[1][i].to(Device::cpu());
      EXPECT_LE(max(abs(results[2][i].to(Device::cpu()) - apart)).item(),
                16 * std::numeric_limits<float>::epsilon() * max(abs(apart)).item())
          << c.rows << " rows, result " << i;
    }
  }
}

/// Whether the head of so many rows of 200 -> 64 -> 10 is one launch, with both layers in it.
bool is_one_launch(Device cuda, int64_t rows) {
  manual_seed(7);
  const Perceptron net({200, 64, 10}, true, cuda);
  const Tensor x = randn({rows, 200}).to(cuda);
  const Tensor target = floor(rand({rows}) * 10).to(i64).to(cuda);
  auto step = compile([&](const Tensor& a, const Tensor& b) { return net(a, b); });
  (void)step(x, target);
  const std::vector<Tensor> results = step(x, target);  // throws if the launch is refused
  EXPECT_TRUE(isfinite(results[0].to(Device::cpu())).item<bool>());
  const std::string plan = step.explain();
  return plan.find("classifier_head ") != std::string::npos &&
         plan.find("linear_grad ") == std::string::npos;
}

// Compute capability 7.5 grants a block 64 KiB of shared memory, others 99 KiB and more.
TEST_F(CudaFused, HeadsTakeWhatTheGpuGrants) {
  if (!runtime(DeviceKind::cuda).description(0).starts_with("emulated"))
    GTEST_SKIP() << "a GPU has the shared memory that it has";
  EXPECT_TRUE(is_one_launch(cuda, 4));  // 61,712 bytes
  EXPECT_TRUE(is_one_launch(cuda, 8));  // 67,312
  const tests::Environment turing("BRIM_EMULATED_SHARED_BYTES", "65536");
  EXPECT_TRUE(is_one_launch(cuda, 4));
  EXPECT_FALSE(is_one_launch(cuda, 8));
}

struct Trained {
  std::vector<double> losses;
  std::string plan;
};

/// Trains the tutorial's network on noise, compiled.
Trained train(Device device, int64_t batch, int steps) {
  manual_seed(3);
  nn::TutorialCnn net;
  std::vector<Tensor> xs, ys;
  for (int i = 0; i < steps; ++i) {
    xs.push_back(randn({batch, 3, 32, 32}));
    ys.push_back(floor(rand({batch}) * 10).to(i64));
  }
  net.to(device);
  optim::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  Trained result;
  for (int i = 0; i < steps; ++i) {
    const auto k = static_cast<size_t>(i);
    result.losses.push_back(step(xs[k].to(device), ys[k].to(device)).item());
  }
  result.plan = step.explain();
  return result;
}

TEST_F(CudaFused, ConvRelu) { tests::expect_conv_relu_like_cpus(cuda); }

TEST_F(CudaFused, ConvReluKeepsNaN) {
  const tests::ConvReluCase c = tests::conv_relu_cases()[0];
  const tests::ConvReluOperands operands(c, f32, true);
  operands.bias.slice(0, 0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(numbers(operands.to(cuda).fused(c))[0]));
}

TEST_F(CudaFused, TheTutorialsStepIsOfFewLaunches) {
  const Trained here = train(Device::cpu(), 4, 8), there = train(cuda, 4, 8);
  ASSERT_EQ(here.losses.size(), there.losses.size());
  for (size_t i = 0; i < here.losses.size(); ++i)
    EXPECT_NEAR(here.losses[i], there.losses[i], 2e-5) << "step " << i;
  for (const char* op : {"conv2d_relu_pool ", "conv2d_relu_pool_grad ", "linear_relu ",
                         "classifier_head ", "linear_grad ", "sgd_momentum "})
    EXPECT_NE(there.plan.find(op), std::string::npos) << op << there.plan;
  for (const char* op : {"matmul ", "max_pool2d ", "conv2d ", "sum "})
    EXPECT_EQ(there.plan.find(op), std::string::npos) << op << there.plan;
}

}  // namespace
}  // namespace brim
