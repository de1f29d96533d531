// Gradient clipping.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>
#include <brim/optim/clip.h>

#include "threads.h"

namespace brim {
namespace {

Tensor with_grad(std::initializer_list<float> grad) {
  Tensor p = zeros({static_cast<int64_t>(grad.size())}).set_requires_grad();
  p.set_grad(Tensor::from<float>(grad, p.shape()));
  return p;
}

TEST(ClipGradNorm, ScalesAllGradientsTogether) {
  const Tensor a = with_grad({3, 0}), b = with_grad({0, -4}), none = zeros({2}).set_requires_grad();
  const Tensor norm = optim::clip_grad_norm_({a, none, b}, 1);
  EXPECT_EQ(norm.shape(), Shape({}));
  EXPECT_FLOAT_EQ(norm.item<float>(), 5);
  EXPECT_NEAR(a.grad()[0].item(), 0.6, 1e-6);
  EXPECT_NEAR(b.grad()[1].item(), -0.8, 1e-6);
  EXPECT_FALSE(none.grad().defined());
  // Below the limit nothing changes.
  EXPECT_NEAR(optim::clip_grad_norm_({a, b}, 2).item(), 1, 1e-5);
  EXPECT_NEAR(a.grad()[0].item(), 0.6, 1e-6);
}

TEST(ClipGradNorm, OtherNorms) {
  const Tensor p = with_grad({3, -4, 1});
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_({p}, 100, 1).item<float>(), 8);
  EXPECT_FLOAT_EQ(
      optim::clip_grad_norm_({p}, 100, std::numeric_limits<double>::infinity()).item<float>(), 4);
  EXPECT_FLOAT_EQ(optim::clip_grad_norm_({p}, 100, 3).item<float>(), std::cbrt(92.f));
}

TEST(ClipGradNorm, NanReachesEveryGradient) {
  const Tensor a = with_grad({1}), b = with_grad({std::nanf("")});
  EXPECT_TRUE(std::isnan(optim::clip_grad_norm_({a, b}, 1).item()));
  EXPECT_TRUE(std::isnan(a.grad().item()));
  // Of the largest, too, whatever comes behind it.
  Tensor c = zeros({20000}).set_requires_grad();
  const Tensor d = with_grad({3});
  c.set_grad(ones({20000}));
  c.grad().data<float>()[5] = std::nanf("");
  const double largest = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(optim::clip_grad_norm_({c, d}, 1, largest).item()));
  EXPECT_TRUE(std::isnan(d.grad().item()));
}

// Also where squares leave the range of f32, of whole and of broken vectors.
TEST(ClipGradNorm, Of16BitsIsThatOfF64) {
  for (const DType dtype : {f16, bf16})
    for (const double size : {1.0, 1e-3, 1e25, 1e-25, 0.0})
      for (const int64_t n : {1, 31, 33, 2049, 100003}) {
        if (dtype == f16 && size != 1 && size != 1e-3) continue;
        SCOPED_TRACE(std::string(name(dtype)) + " of " + std::to_string(n) + " times " +
                     std::to_string(size));
        Generator generator(3);
        const Tensor g = (randn({n}, {}, &generator) * size).to(dtype), wide = g.to(f64);
        Tensor p = zeros({n}, {.dtype = dtype}).set_requires_grad();
        p.set_grad(g.clone());
        const double want = std::sqrt(sum(wide * wide).item()), limit = want / 2;
        const double norm = optim::clip_grad_norm_({p}, limit).item();
        const double once = dtype == f16 ? 0x1p-11 : 0x1p-8;
        EXPECT_LE(std::abs(norm - want), 1.01 * once * want);
        if (size != 1) continue;  // PyTorch, too, adds 1e-6 to norms
        const Tensor off = abs(p.grad().to(f64) - wide * 0.5);
        EXPECT_LE(amax(off).item(), 2.5 * once * amax(abs(wide)).item());
      }
}

TEST(ClipGradNorm, OfF16MayBeLargerThanItsNumbers) {
  Tensor p = zeros({100}, {.dtype = f16}).set_requires_grad();
  p.set_grad(full({100}, 3e4, {.dtype = f16}));
  const Tensor norm = optim::clip_grad_norm_({p}, 10);
  EXPECT_EQ(norm.dtype(), f32);
  EXPECT_NEAR(norm.item(), 3e5, 10);
  EXPECT_NEAR(p.grad()[99].item(), 1, 1e-3);
}

TEST(ClipGradNorm, NanAndInfinityOf16BitsReachTheNorm) {
  for (const DType dtype : {f16, bf16})
    for (const int64_t n : {5, 4000}) {
      Tensor p = zeros({n}, {.dtype = dtype}).set_requires_grad();
      Tensor g = ones({n}, {.dtype = dtype});
      g[n - 1].fill_(std::numeric_limits<double>::infinity());
      p.set_grad(g);
      EXPECT_TRUE(std::isinf(optim::clip_grad_norm_({p}, 1).item()));
      p.grad()[n - 1].fill_(std::nan(""));
      EXPECT_TRUE(std::isnan(optim::clip_grad_norm_({p}, 1).item()));
      EXPECT_TRUE(std::isnan(p.grad()[0].item()));
    }
}

TEST(ClipGradNorm, DoesNotDependOnThreads) {
  manual_seed(1);
  Tensor p = zeros({200001}).set_requires_grad();
  p.set_grad(randn(p.shape()));
  const auto norm_on = [&](int threads) {
    const tests::Threads guard(threads);
    return optim::clip_grad_norm_({p}, 1e9).item<float>();
  };
  EXPECT_EQ(norm_on(3), norm_on(1));
}

TEST(ClipGradNorm, OverParametersOnSeveralDevices) {
  if (Device::count("sim") < 2) GTEST_SKIP() << "needs two virtual accelerators";
  const auto on = [](Device device, const Tensor& p) {
    Tensor moved = p.detach().to(device).set_requires_grad();
    moved.set_grad(p.grad().to(device));
    return moved;
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const double type : {2.0, 1.0, 3.0, inf}) {
    const auto make = [] {
      return std::array{with_grad({3, 0, -2}), with_grad({0, -4}), with_grad({1, 5}),
                        with_grad({-2})};
    };
    const auto alone = make(), parts = make();
    const std::vector<Tensor> spread = {on(Device::sim(1), parts[0]), parts[1],
                                        on(Device::sim(0), parts[2]), on(Device::sim(1), parts[3])};
    const Tensor want = optim::clip_grad_norm_({alone[0], alone[1], alone[2], alone[3]}, 1, type);
    const Tensor norm = optim::clip_grad_norm_(spread, 1, type);
    EXPECT_EQ(norm.device(), Device::sim(1));
    EXPECT_NEAR(norm.item(), want.item(), 1e-5);
    for (size_t i = 0; i < spread.size(); ++i) {
      const auto clipped = spread[i].grad().to_vector<float>();
      const auto expected = alone[i].grad().to_vector<float>();
      for (size_t k = 0; k < clipped.size(); ++k) EXPECT_NEAR(clipped[k], expected[k], 1e-6);
    }
    optim::clip_grad_value_(spread, 0.01);
    for (const Tensor& p : spread) EXPECT_LE(max(abs(p.grad())).item(), 0.0101);
  }
}

TEST(ClipGradNorm, Errors) {
  const Tensor a = with_grad({1});
  Tensor b = zeros({1}, {.dtype = f64}).set_requires_grad();
  b.set_grad(ones({1}, {.dtype = f64}));
  EXPECT_THROW(optim::clip_grad_norm_({a}, -1), ValueError);
  EXPECT_THROW(optim::clip_grad_norm_({a}, 1, 0), ValueError);
  EXPECT_THROW(optim::clip_grad_norm_({a, b}, 1), DTypeError);
  EXPECT_EQ(optim::clip_grad_norm_({}, 1).item(), 0);
}

TEST(ClipGradValue, LimitsEachElement) {
  const Tensor p = with_grad({3, -4, 0.25});
  optim::clip_grad_value_({p}, 0.5);
  EXPECT_EQ(p.grad().to_vector<float>(), (std::vector<float>{0.5, -0.5, 0.25}));
}

TEST(ClipGradValue, BroadcastGradientsAreNotWrittenTwice) {
  Tensor p = zeros({3}).set_requires_grad();
  p.set_grad(full({1}, 4).expand({3}));
  EXPECT_NEAR(optim::clip_grad_norm_({p}, 1).item(), 4 * std::sqrt(3.0), 1e-5);
  EXPECT_NEAR(p.grad()[2].item(), 1 / std::sqrt(3.0), 1e-6);
}

}  // namespace
}  // namespace brim
