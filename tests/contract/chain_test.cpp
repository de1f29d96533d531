// Chains of compiled steps: what elementwise kernels, dropout and one kernel on rows compute in one
// launch has the bits of the launches apart, on every backend and for every float.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "backend/has_kernel.h"
#include "contract/harness.h"

namespace brim::contract {
namespace {

using Body = std::function<Tensor(const Tensor&)>;

/// A function of x, made for a device and a dtype, that is so many launches when compiled.
struct Chained {
  const char* name;
  Shape shape;
  std::function<Body(const Shape& shape, const TensorOptions& options)> body;
  int64_t launches = 1;
  const char* kernel = nullptr;  // which a device must have, if any
};

Tensor made(const Shape& shape, const TensorOptions& options, size_t seed) {
  return make_input({.shape = shape}, options.dtype, seed).to(options.device);
}

void expect_same_bits(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.shape(), want.shape());
  ASSERT_EQ(got.dtype(), want.dtype());
  const std::vector<double> a = values(got.to(Device::cpu()).to(f64)),
                            b = values(want.to(Device::cpu()).to(f64));
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (a[i] != a[i] && b[i] != b[i]))
        << "element " << i << ": " << a[i] << " instead of " << b[i];
}

void expect_chained(const Chained& chained, const TensorOptions& options) {
  const Body body = chained.body(chained.shape, options);
  const Tensor x = made(chained.shape, options, 1);
  manual_seed(7);
  const Tensor want = body(x);
  auto step = compile(Body(body));
  for (int i = 0; i < 3; ++i) {
    manual_seed(7);
    expect_same_bits(step(x), want);
  }
  EXPECT_EQ(step.stats().launches, chained.launches) << step.explain();
}

void on_all_devices(const std::vector<Chained>& all) {
  for (const Device device : devices())
    for (const DType dtype : kFloats)
      for (const Chained& chained : all) {
        if (chained.kernel && !backend::has_kernel(chained.kernel, device, dtype)) continue;
        SCOPED_TRACE(std::string(chained.name) + " " + chained.shape.str() + " on " + device.str() +
                     ", " + std::string(name(dtype)));
        expect_chained(chained, {.dtype = dtype, .device = device});
        if (testing::Test::HasFailure()) return;
      }
}

/// The gradient of sum(f(x) w) for a fixed w.
Body gradient(const Body& f, const Tensor& w) {
  return [=](const Tensor& x) {
    const Tensor leaf = x.detach().set_requires_grad();
    return autograd::grad(std::vector{f(leaf)}, std::vector{leaf}, std::vector{w})[0];
  };
}

TEST(Chains, OperandsAreBroadcast) {
  const auto with = [](const Shape& other) {
    return [=](const Shape&, const TensorOptions& options) -> Body {
      const Tensor b = made(other, options, 2), c = made(other, options, 3);
      return [=](const Tensor& x) { return relu(x + b) * x - c; };
    };
  };
  on_all_devices({
      {"the same", {3, 1000}, with({3, 1000})},
      {"one number", {3, 1000}, with({1})},
      {"a row", {37, 1001}, with({1001})},
      {"a short row", {5000, 3}, with({1, 3})},
      {"a column", {37, 1001}, with({37, 1})},
      {"channels", {2, 5, 4, 4}, with({5, 1, 1})},
      {"channels of large images", {2, 3, 40, 50}, with({1, 3, 1, 1})},
      {"an image for all", {4, 3, 20, 5}, with({3, 20, 5})},
      {"in the middle", {4, 6, 70}, with({6, 1})},
  });
}

TEST(Chains, WhatIsSpreadInTwoStepsStaysApart) {
  on_all_devices({{"both ends",
                   {3, 40, 5},
                   [](const Shape&, const TensorOptions& options) -> Body {
                     const Tensor b = made({3, 1, 5}, options, 2);
                     return [=](const Tensor& x) { return exp(x + b); };
                   },
                   2}});
}

TEST(Chains, OneKernelOnRows) {
  const auto soft = [](const Shape&, const TensorOptions&) -> Body {
    return [](const Tensor& x) { return softmax(x * 0.5, -1) + 1; };
  };
  const auto log_soft = [](const Shape&, const TensorOptions&) -> Body {
    return [](const Tensor& x) { return -log_softmax(abs(x), -1); };
  };
  const auto norm = [](const Shape& shape, const TensorOptions& options) -> Body {
    const int64_t n = shape.back();
    const Tensor other = made(shape, options, 2), weight = made({n}, options, 3),
                 bias = made({n}, options, 4);
    return [=](const Tensor& x) { return gelu(layer_norm(x + other, {n}, weight, bias)); };
  };
  const auto unweighted = [](const Shape& shape, const TensorOptions&) -> Body {
    const int64_t n = shape.back();
    return [=](const Tensor& x) { return layer_norm(x * 3, {n}) * 2; };
  };
  const auto rms = [](const Shape& shape, const TensorOptions& options) -> Body {
    const int64_t n = shape.back();
    const Tensor other = made(shape, options, 2), weight = made({n}, options, 3);
    return [=](const Tensor& x) { return gelu(rms_norm(x + other, {n}, weight)); };
  };
  std::vector<Chained> all;
  for (const Shape& shape : std::vector<Shape>{
           {1, 1}, {4, 7}, {2, 3, 128}, {70, 33}, {3, 1025}, {2, 5001}, {1, 8192}, {200, 4}}) {
    all.push_back({"softmax", shape, soft});
    all.push_back({"log_softmax", shape, log_soft});
    all.push_back({"layer_norm", shape, norm});
    all.push_back({"layer_norm without weight", shape, unweighted});
    all.push_back({"rms_norm", shape, rms, 1, "rms_norm"});
  }
  on_all_devices(all);
}

TEST(Chains, WhatIsReadBeforeAndBehindTheRows) {
  const auto inside = [](const Shape&, const TensorOptions&) -> Body {
    return [](const Tensor& x) {
      const Tensor a = exp(x), b = a * 0.25;
      return softmax(b, -1) * a - b;
    };
  };
  const auto kept = [](const Shape& shape, const TensorOptions& options) -> Body {
    const int64_t n = shape.back();
    const Tensor other = made(shape, options, 2);
    return [=](const Tensor& x) {
      const Tensor s = x + other;  // the residual: seen outside as well
      return cat({layer_norm(s, {n}) + s, s}, 0);
    };
  };
  on_all_devices({{"inside", {6, 40}, inside},
                  {"inside", {2, 1027}, inside},
                  {"inside", {2, 5001}, inside},
                  {"kept", {6, 40}, kept, 3},
                  {"kept", {2, 5001}, kept, 3}});
}

TEST(Chains, WhatIsOverwrittenAroundRows) {
  const auto twice = [](const Shape& shape, const TensorOptions& options) -> Body {
    const Tensor other = made(shape, options, 2);
    return [=](const Tensor& x) {
      Tensor t = x + other;
      const Tensor u = t * 3;
      t.mul_(2);
      Tensor y = softmax(t + u, -1);
      t.add_(y);
      return t * u;
    };
  };
  const auto outside = [](const Shape& shape, const TensorOptions& options) -> Body {
    const Tensor state = made(shape, options, 2), first = state.clone();
    return [=](const Tensor& x) {
      Tensor s = state;  // seen outside
      s.copy_(first);
      s.mul_(x);
      const Tensor y = softmax(s, -1);
      s.add_(x);
      return y * s;
    };
  };
  on_all_devices({{"twice", {6, 40}, twice, 2},
                  {"twice", {2, 5001}, twice, 2},
                  {"outside", {6, 40}, outside, 3},
                  {"outside", {2, 5001}, outside, 3}});
}

TEST(Chains, OneRowWhoseWeightIsMadeInTheStep) {
  const auto norm = [](const Shape& shape, const TensorOptions& options) -> Body {
    const int64_t n = shape.back();
    const Tensor w = made({n}, options, 2), b = made({n}, options, 3);
    return [=](const Tensor& x) { return layer_norm(x, {n}, w + 1, b * 2); };
  };
  on_all_devices({{"one row", {1, 40}, norm, 2}});
}

TEST(Chains, LargeAnglesAmongSmallOnes) {
  const auto body = [](const Shape& shape, const TensorOptions& options) -> Body {
    const Tensor far = zeros(shape, options);
    far.flatten().slice(0, 1010, 1011).copy_(full({1}, 2e8, options));
    return [=](const Tensor& x) { return softmax(sin(x * 3 + far), -1); };
  };
  for (const Device device : devices())
    expect_chained({"large angles", {50, 40}, body}, {.dtype = f32, .device = device});
}

TEST(Chains, GradientsOnRows) {
  const auto of = [](const std::function<Tensor(const Tensor&)>& f) {
    return [=](const Shape& shape, const TensorOptions& options) -> Body {
      return gradient(f, made(shape, options, 5));
    };
  };
  // Forward is one chain, backward the other.
  const auto soft = of([](const Tensor& x) { return softmax(x * 0.3, -1); });
  const auto log_soft = of([](const Tensor& x) { return log_softmax(x * 0.3, -1); });
  on_all_devices({{"softmax", {5, 64}, soft, 2},
                  {"softmax", {5, 1001}, soft, 2},
                  {"log_softmax", {5, 64}, log_soft, 2},
                  {"log_softmax", {3, 77}, log_soft, 2}});
}

TEST(Chains, DropoutDropsTheSame) {
  const auto residual = [](const Shape& shape, const TensorOptions& options) -> Body {
    const Tensor other = made(shape, options, 2);
    return [=](const Tensor& x) { return dropout(x * 2, 0.3) + other; };
  };
  const auto attention = [](const Shape&, const TensorOptions&) -> Body {
    return [](const Tensor& x) { return dropout(softmax(x * 0.5, -1), 0.1) * 4; };
  };
  const auto before = [](const Shape& shape, const TensorOptions& options) -> Body {
    const int64_t n = shape.back();
    const Tensor other = made(shape, options, 2);
    return [=](const Tensor& x) { return layer_norm(dropout(x, 0.4) + other, {n}); };
  };
  on_all_devices({{"residual", {1}, residual},
                  {"residual", {1023}, residual},
                  {"residual", {300, 301}, residual},
                  {"behind rows", {9, 130}, attention},
                  {"behind rows", {2, 4099}, attention},
                  {"before rows", {9, 130}, before},
                  {"before rows", {9, 131}, before}});
}

TEST(Chains, TwoDropoutsAreTwoChains) {
  on_all_devices({{"twice",
                   {40, 50},
                   [](const Shape&, const TensorOptions&) -> Body {
                     return [](const Tensor& x) { return dropout(dropout(x, 0.3) * 2, 0.5) * 2; };
                   },
                   2}});
}

TEST(Chains, SecondRowsAndLongOnesStayApart) {
  const auto twice = [](const Shape&, const TensorOptions&) -> Body {
    return [](const Tensor& x) { return softmax(softmax(x * 2, -1) * 3, -1); };
  };
  const auto once = [](const Shape&, const TensorOptions&) -> Body {
    return [](const Tensor& x) { return softmax(x * 2, -1); };
  };
  const auto first = [](const Shape&, const TensorOptions&) -> Body {
    return [](const Tensor& x) { return softmax(x * 2, 0); };
  };
  on_all_devices({{"twice", {4, 20}, twice, 2},
                  {"long", {2, 8193}, once, 2},
                  {"another axis", {4, 20}, first, 2}});
}

}  // namespace
}  // namespace brim::contract
