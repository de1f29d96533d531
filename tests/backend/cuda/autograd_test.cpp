// What a backward pass launches on CUDA: the gradients of a small fully connected layer in one
// kernel, and nothing for the one that it starts from. Skipped without a CUDA device
// (BRIM_BACKEND_PATH may name the emulated one).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "backend/expect_close.h"
#include "backend/launches.h"

namespace brim {
namespace {

class CudaAutograd : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0) GTEST_SKIP() << "no CUDA device";
    manual_seed(29);
  }
  const Device cuda = Device(DeviceKind::cuda, 0);
};

using Names = std::vector<std::string>;

double gradient_tolerance(DType dtype) {
  return dtype == f64 ? 1e-12 : dtype == f32 ? 4e-6 : dtype == f16 ? 4e-3 : 3e-2;
}

/// A layer on a device, the gradient of its result, and what wants a gradient.
struct DifferentiatedLayer {
  Tensor x, weight, bias, dy;
  DifferentiatedLayer(const Shape& image, int64_t outputs, DType dtype, Device device) {
    const auto leaf = [&](const Shape& shape) {
      return randn(shape).to(dtype).to(device).detach().set_requires_grad();
    };
    x = leaf(image), weight = leaf({outputs, image[image.rank() - 1]}), bias = leaf({outputs});
    Shape to = image;
    to[to.rank() - 1] = outputs;
    dy = randn(to).to(dtype).to(device);
  }
  Tensor y() const { return linear(x, weight, bias); }
  /// The same in f64 on the CPU, with its gradients made of ops.
  void expect_gradients(const std::string& what) const {
    const auto wide = [](const Tensor& t) {
      return t.detach().to(Device::cpu()).to(f64).set_requires_grad(t.requires_grad());
    };
    const Tensor x0 = wide(x), w0 = wide(weight), b0 = bias.defined() ? wide(bias) : bias;
    Tensor y0 = matmul(x0, w0.t());
    if (b0.defined()) y0 = y0 + b0;
    y0.backward(wide(dy));
    const auto expect = [&](const Tensor& t, const Tensor& t0, const char* name) {
      if (!t.defined()) return;
      EXPECT_EQ(t.grad().defined(), t0.requires_grad()) << what << name;
      if (t.grad().defined())
        expect_close(t.grad(), t0.grad(), gradient_tolerance(t.dtype()), what + name);
    };
    expect(x, x0, ", dx"), expect(weight, w0, ", dw"), expect(bias, b0, ", db");
  }
};

TEST_F(CudaAutograd, ASmallLayersGradientsAreOneLaunch) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const Shape& image : {Shape{4, 400}, Shape{1, 7}, Shape{5, 3, 20}, Shape{13}, Shape{0, 6}})
      for (const int64_t outputs : {1, 10, 33}) {
        const DifferentiatedLayer l(image, outputs, dtype, cuda);
        const std::string what = std::string(name(dtype)) + " " + image.str();
        const Tensor y = l.y();
        EXPECT_EQ(launches([&] { y.backward(l.dy); }), Names{"linear_grad"}) << what;
        l.expect_gradients(what);
      }
}

TEST_F(CudaAutograd, OnlyTheGradientsThatAreWanted) {
  for (const bool wants_x : {true, false})
    for (const bool wants_bias : {true, false}) {
      DifferentiatedLayer l({6, 30}, 8, f32, cuda);
      l.x.set_requires_grad(wants_x);
      if (!wants_bias) l.bias = {};
      const Tensor y = l.y();
      const Names names = launches([&] { y.backward(l.dy); });
      const bool both = wants_x || wants_bias;
      EXPECT_EQ(std::count(names.begin(), names.end(), "linear_grad"), both ? 1 : 0);
      EXPECT_EQ(names.size(), 1u);
      l.expect_gradients("some");
    }
  DifferentiatedLayer l({6, 30}, 8, f32, cuda);  // a frozen weight
  l.weight.set_requires_grad(false);
  const Tensor y = l.y();
  const Names names = launches([&] { y.backward(l.dy); });
  EXPECT_EQ(std::count(names.begin(), names.end(), "linear_grad"), 0);
  l.expect_gradients("frozen");
}

// dy of sum() is one number in memory; operands that lie across.
TEST_F(CudaAutograd, StridedOperands) {
  DifferentiatedLayer l({6, 30}, 8, f32, cuda);
  l.x = randn({30, 6}).to(cuda).t().detach().set_requires_grad();
  l.weight = randn({30, 8}).to(cuda).t().detach().set_requires_grad();
  l.dy = ones({1}, {.device = cuda}).expand({6, 8});
  const Tensor y = l.y();
  const Tensor loss = sum(y);
  const Names names = launches([&] { loss.backward(); });
  EXPECT_EQ(std::count(names.begin(), names.end(), "linear_grad"), 1);
  l.expect_gradients("strided");
}

TEST_F(CudaAutograd, ManyRowsAndSecondGradientsKeepTheOps) {
  const DifferentiatedLayer many({65, 30}, 8, f32, cuda);
  const Tensor y = many.y();
  const Names names = launches([&] { y.backward(many.dy); });
  EXPECT_EQ(std::count(names.begin(), names.end(), "linear_grad"), 0);
  EXPECT_EQ(std::count(names.begin(), names.end(), "matmul"), 2);
  many.expect_gradients("many rows");

  const DifferentiatedLayer l({6, 30}, 8, f64, cuda);
  const Tensor z = l.y();
  const Names twice = launches([&] { z.backward(l.dy, {.create_graph = true}); });
  EXPECT_EQ(std::count(twice.begin(), twice.end(), "linear_grad"), 0);
  EXPECT_TRUE(l.weight.grad().requires_grad());
  sum(l.weight.grad()).backward();  // d/dx of the sum of dy^T x: the sum of each row of dy
  const Tensor dx = l.x.grad().detach() - matmul(l.dy, l.weight).detach();
  expect_close(dx, sum(l.dy, {1}, true).expand({6, 30}), 1e-12, "second gradient");
  for (Tensor t : {l.x, l.weight, l.bias}) t.set_grad({});  // whose graph holds them
}

// The layer's step gives what a plan gives, whose pass puts the same kernel in place.
TEST_F(CudaAutograd, EagerLayersTrainAsCompiledOnes) {
  const auto trained = [&](bool compiled) {
    manual_seed(3);
    DifferentiatedLayer l({4, 84}, 10, f32, cuda);
    const auto step = [&](const Tensor& dy) {
      l.x.set_grad({}), l.weight.set_grad({}), l.bias.set_grad({});
      l.y().backward(dy);
      return std::vector<Tensor>{l.x.grad() * 1.0, l.weight.grad() * 1.0, l.bias.grad() * 1.0};
    };
    auto replayed = compile(step);
    std::vector<std::vector<float>> all;
    for (const Tensor& t : compiled ? replayed(l.dy) : step(l.dy))
      all.push_back(t.to_vector<float>());
    const bool found = replayed.explain().find("linear_grad") != std::string::npos;
    EXPECT_EQ(found, compiled) << replayed.explain();
    return all;
  };
  EXPECT_EQ(trained(true), trained(false));
}

/// Launches of a second backward() from a loss.
Names second_backward(const Tensor& x) {
  (x * 2.0).backward();
  const Tensor loss = x * 2.0;
  return launches([&] { loss.backward(); });
}

TEST_F(CudaAutograd, BackwardFillsNoOneEachTime) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}}) {
      const Tensor x = full(shape, 3, {.dtype = dtype, .device = cuda}).set_requires_grad();
      const Names names = second_backward(x);
      EXPECT_EQ(std::count(names.begin(), names.end(), "fill"), 0);
      EXPECT_FALSE(names.empty());
      EXPECT_EQ(x.grad().item(), 4);  // of both
      EXPECT_EQ(x.grad().shape(), shape);
    }
}

// Whoever gets the one that a pass begins with may write into it.
TEST_F(CudaAutograd, NobodyWritesIntoAnothersOne) {
  const auto leaf = [&] { return ones({}, {.device = cuda}).set_requires_grad(); };
  const auto expect_one = [&] {
    const Tensor x = leaf();
    (x * 2.0).backward();
    EXPECT_EQ(x.grad().item(), 2);
  };
  // Kept gradients of two losses, each changed by its owner.
  Tensor a = leaf() * 3.0, b = leaf() * 3.0;
  a.retain_grad(), b.retain_grad();
  a.backward();
  b.backward();
  a.grad().mul_(5);
  EXPECT_EQ(b.grad().item(), 1);
  expect_one();
  b.grad().fill_(7);
  expect_one();
  EXPECT_EQ(a.grad().item(), 5);
  EXPECT_EQ(b.grad().item(), 7);
  {
    Tensor c = leaf() * 3.0;
    c.retain_grad();
    c.backward();
    c.grad().fill_(9);  // given back changed
  }
  expect_one();
  // A hook that writes, the gradient of a loss by itself, a leaf, and sums in place.
  Tensor d = leaf() * 3.0;
  d.register_hook([](const Tensor& g) {
    Tensor(g).mul_(4);
    return Tensor();
  });
  d.backward();
  expect_one();
  const Tensor e = leaf(), f = e * 3.0;
  Tensor own = autograd::grad({&f, 1}, {&f, 1})[0];
  own.mul_(6);
  expect_one();
  const Tensor g = leaf();
  g.backward();
  g.backward();
  EXPECT_EQ(g.grad().item(), 2);
  g.grad().fill_(11);
  expect_one();
  const Tensor h = leaf();
  (h + h).backward();
  EXPECT_EQ(h.grad().item(), 2);
  expect_one();
}

TEST_F(CudaAutograd, OnesOfSeveralStreamsAreApart) {
  const Tensor x = ones({}, {.device = cuda}).set_requires_grad();
  (x * 2.0).backward();
  const Stream other = Stream::create(cuda);
  synchronize(cuda);
  Names names;
  {
    const StreamGuard guard(other);
    const Tensor loss = x * 2.0;
    names = launches([&] { loss.backward(); });
    synchronize(cuda);
  }
  EXPECT_EQ(std::count(names.begin(), names.end(), "fill"), 1);
  EXPECT_EQ(x.grad().item(), 4);
}

}  // namespace
}  // namespace brim
