// Numbers near the ends of their dtypes, and nothing at all: what must not become infinity or NaN
// in between. PyTorch gives the same, or infinity where its sums are f32.
#include <cmath>

#include <brim/autograd/autograd.h>
#include <brim/brim.h>

#include "contract/contract.h"
#include "contract/harness.h"

namespace brim::contract {
namespace {

TEST(Range, DeviationsAndNormsDoNotOverflowOnTheWay) {
  for (const Device device : devices())
    for (const auto& of :
         {std::pair{f16, 1e3}, {bf16, 1e38}, {f32, 1e19}, {f32, 1e38}, {f32, 1e-30}}) {
      const DType dtype = of.first;
      const double unit = of.second;
      // Both along rows and down columns, long enough for vectors.
      std::vector<double> v(64);
      for (size_t i = 0; i < v.size(); ++i) v[i] = unit * static_cast<double>(i % 3);
      const Tensor x = array(v, {32, 2}, dtype).to(device);
      for (const Tensor& rows : {x.t().contiguous(), x.t(), x.t().slice(1, 0, 3)}) {
        SCOPED_TRACE(std::string(name(dtype)) + " on " + device.str());
        const auto expect = [&](const Tensor& y, const Tensor& want) {
          expect_near(y.to(f64) / unit, want / unit, size_of(dtype) == 2 ? 0.01 : 1e-6, "result");
        };
        const Tensor wide = rows.to(Device::cpu()).to(f64);
        expect(stddev(rows, {1}), stddev(wide, {1}));
        for (const double p : {1.5, 2.0, 3.0}) {
          const Tensor length = norm(wide, p, {1});
          if (max(length).item() < (dtype == f16 ? 65504 : 3.3e38))
            expect(norm(rows, p, {1}), length);
        }
      }
    }
  // Means that f32 does not hold, and one that f64 does not.
  EXPECT_NEAR(stddev(Tensor::from<float>({0x1p24f, 0x1p24f + 2}, {2})).item(), std::sqrt(2), 1e-6);
  EXPECT_EQ(var(Tensor::from<float>({256, 258}, {2}).to(bf16)).item(), 2);
  EXPECT_EQ(stddev(full({7}, 0.1, {.dtype = f64})).item(), 0);
}

TEST(Range, GradientsOfDeviationsAndNorms) {
  for (const DType dtype : {f16, f32}) {
    const double unit = dtype == f16 ? 1e3 : 1e25;
    const auto gradient = [&](const auto& f, DType in) {
      Tensor x = array({0, unit, 2 * unit, 5 * unit}, {4}).to(in).set_requires_grad();
      f(x).backward();
      return x.grad();
    };
    const auto check = [&](const auto& f) {
      expect_near(gradient(f, dtype), gradient(f, f64), dtype == f16 ? 2e-3 : 1e-6, "gradient");
    };
    check([](const Tensor& x) { return stddev(x); });
    for (const double p : {1.5, 2.0, 3.0, 7.0}) check([=](const Tensor& x) { return norm(x, p); });
  }
  const auto gradient = [](DType dtype) {  // of the quotient's power, which is no number of f32
    Tensor x = array({1.2345e-38, 0x1p20}, {2}).to(dtype).set_requires_grad();
    norm(x, 0.5).backward();
    return x.grad();
  };
  expect_near(gradient(f32), gradient(f64), 1e-6, "p = 0.5");
  // 1 / norm and 1 / deviation are infinite.
  Tensor x = Tensor::from<float>({0, 0x1p-130f}, {2}).set_requires_grad();
  norm(x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 1}));
  x.zero_grad();
  stddev(x).backward();
  expect_near(x.grad(), array({-std::sqrt(0.5), std::sqrt(0.5)}, {2}), 1e-5, "stddev");
}

/// f(x), the gradient of sum(c f(x)), and the gradient of that one's sum weighted by c^2.
Tensors two_orders(const std::function<Tensor(const Tensor&)>& f, const Tensor& values,
                   const Tensor& c) {
  Tensor x = values.detach().set_requires_grad();
  const Tensor y = f(x);
  const Tensors of = {sum(y.to(f64) * c)};
  const Tensors first = autograd::grad(of, {&x, 1}, {}, {.create_graph = true});
  sum(first[0].to(f64) * square(c)).backward();
  return {y.detach(), first[0].detach(), x.grad()};
}

TEST(Range, TheCountOfWhatIsNot0HasNoSlope) {
  Tensor x = Tensor::from<float>({3, 0, -7}, {3}).set_requires_grad();
  const Tensor count = norm(x, 0);
  EXPECT_EQ(count.item(), 2);
  count.backward();
  EXPECT_EQ(values(x.grad()), std::vector<double>(3, 0));
}

// Of 16 bits, what is made of ops is rounded at its ends, not between the ops: results are off by
// one rounding of the largest at most, the gradients, which go through two and three, by little
// more.
TEST(Range, NormsIn16BitsAreRoundedOnce) {
  const double allowed[] = {1, 1.75, 2.5};  // roundings
  for (const DType dtype : {f16, bf16})
    for (int seed = 0; seed < 20; ++seed) {
      manual_seed(static_cast<uint64_t>(seed));
      const Tensor x = randn({4, 6, 5}).to(dtype), c = randn({4, 6, 5}).to(f64);
      const Tensor w = (rand({6}) + 0.5).to(dtype), b = randn({6}).to(dtype);
      const Tensor rows = (rand({5}) + 0.5).to(dtype);
      const auto check = [&](const char* what, const auto& f) {
        const Tensors got = two_orders(f, x, c), want = two_orders(f, x.to(f64), c);
        const double rounding = dtype == f16 ? 0x1p-11 : 0x1p-8;
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_LE(max(abs(got[i].to(f64) - want[i])).item(),
                    allowed[i] * rounding * max(abs(want[i])).item())
              << what << " " << name(dtype) << " " << seed << ", order " << i;
      };
      check("group_norm",
            [&](const Tensor& t) { return group_norm(t, 2, w.to(t.dtype()), b.to(t.dtype())); });
      check("layer_norm", [&](const Tensor& t) {
        return layer_norm(t, {5}, rows.to(t.dtype()), rows.to(t.dtype()));
      });
      check("rms_norm", [&](const Tensor& t) { return rms_norm(t, {5}, rows.to(t.dtype())); });
    }
}

// A product that leaves the range before it meets a 0 is 0, not infinity times 0.
TEST(Range, GradientsOfProductsWithAZero) {
  for (const Device device : devices())
    for (const auto& [dtype, big] : {std::pair{f16, 3e2}, {bf16, 1e30}, {f32, 1e30}, {f64, 1e200}})
      for (size_t zero = 0; zero < 5; ++zero) {
        std::vector<double> v(5, big), want(5, 0);
        v[zero] = 0;
        want[zero] = INFINITY;
        Tensor x = array(v, {1, 5}, dtype).to(device).set_requires_grad();
        prod(x, {1}).backward(ones({1}, {.dtype = dtype, .device = device}));
        EXPECT_EQ(values(x.grad()), want) << name(dtype) << " on " << device.str() << " " << zero;
      }
  // Infinity itself times 0 is NaN.
  Tensor x = Tensor::from<float>({0, INFINITY, 2}, {3}).set_requires_grad();
  prod(x).backward();
  EXPECT_TRUE(std::isnan(values(x.grad())[2]));
  // Of the second order where f32 has no room.
  Tensor y = Tensor::from<float>({0, 1e25f, 1e25f}, {3}).set_requires_grad();
  const Tensors product = {prod(y)};
  const Tensors first = autograd::grad(product, {&y, 1}, {}, {.create_graph = true});
  sum(first[0].slice(0, 1, 3)).backward();  // y[0] y[2] + y[0] y[1]
  EXPECT_EQ(y.grad().to_vector<float>(), (std::vector<float>{2e25f, 0, 0}));
}

TEST(Range, GradientsOfQuotients) {
  // -dy a / b^2 is in range, dy a / b is not.
  for (const Device device : devices())
    for (const int64_t n : {1, 37}) {
      SCOPED_TRACE(device.str());
      const TensorOptions half{.dtype = f16, .device = device};
      const Tensor a = full({n}, 32768, half), b = full({n}, 32, half).set_requires_grad();
      div(a, b).backward(full({n}, 128, half));
      EXPECT_EQ(values(b.grad())[0], -4096);
      // -dy y^3 / 2 and -dy y^2, where y is 64 and 1024.
      for (const auto& [f, x0, dy, want] :
           {std::tuple(
                +[](const Tensor& t) { return rsqrt(t); }, 0x1p-12, 0x1p-4, -0x1p13),
            std::tuple(
                +[](const Tensor& t) { return reciprocal(t); }, 0x1p-10, 0x1p-6, -0x1p14)}) {
        const Tensor x = full({n}, x0, half).set_requires_grad();
        f(x).backward(full({n}, dy, half));
        EXPECT_EQ(values(x.grad())[0], want);
      }
    }
}

TEST(Range, GradientsOfRootsReachTheLargestNumbers) {
  for (const Device device : devices()) {
    Tensor x = full({3}, 0.25, {.dtype = f16, .device = device}).set_requires_grad();
    sqrt(x).backward(full({3}, 60000, {.dtype = f16, .device = device}));
    EXPECT_EQ(values(x.grad()), std::vector<double>(3, 60000));
  }
}

TEST(Range, SecondGradientsOfActivationsIn16Bits) {
  // They saturate at 2000; its square times what flows in is above 65504.
  for (const Device device : devices())
    for (const auto& f :
         {+[](const Tensor& x) { return gelu(x); },
          +[](const Tensor& x) { return gelu(x, GeluForm::tanh); },
          +[](const Tensor& x) { return silu(x); }, +[](const Tensor& x) { return tanh(x); }}) {
      Tensor x = full({3}, 2000, {.dtype = f16, .device = device}).set_requires_grad();
      const Tensors y = {f(x)}, weights = {full_like(x, 100)};
      const Tensors first = autograd::grad(y, {&x, 1}, weights, {.create_graph = true});
      mul(first[0], 100).backward(ones_like(x));
      EXPECT_EQ(values(x.grad())[0], 0) << device.str();
    }
}

// The gradients of no elements are no elements, and what flows into them is not NaN.
TEST(Range, SecondGradientsOfNothing) {
  const Tensor labels = zeros({0}, {.dtype = i64});
  using Op = std::function<Tensor(const Tensor&)>;
  const std::pair<const char*, Op> ops[] = {
      {"mean", [](const Tensor& x) { return mean(x); }},
      {"mean of rows", [](const Tensor& x) { return mean(x, {0}); }},
      {"sum", [](const Tensor& x) { return sum(x); }},
      {"prod", [](const Tensor& x) { return prod(x); }},
      {"var", [](const Tensor& x) { return var(x); }},
      {"norm", [](const Tensor& x) { return norm(x); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x); }},
      {"mse_loss",
       [](const Tensor& x) {
         return mse_loss(x, zeros({0, 3}, {.dtype = f64}));
       }},
      {"cross_entropy", [&](const Tensor& x) { return cross_entropy(x, labels); }},
      {"cross_entropy of probabilities", [](const Tensor& x) {
         return cross_entropy(x, zeros({0, 3}, {.dtype = f64}));
       }}};
  for (const auto& [what, op] : ops) {
    Tensor x = zeros({0, 3}, {.dtype = f64}).set_requires_grad();
    const Tensors y = {op(x)};
    const Tensors w = {ones(y[0].shape(), {.dtype = f64}).set_requires_grad()};
    const Tensors first = autograd::grad(y, {&x, 1}, w, {.create_graph = true});
    EXPECT_EQ(first[0].shape(), x.shape()) << what;
    if (!first[0].requires_grad()) continue;
    sum(first[0] * 2).backward();
    if (!w[0].grad().defined()) continue;
    for (const double g : values(w[0].grad())) EXPECT_EQ(g, 0) << what;
  }
}

TEST(Range, FloatsBecomeIntegersAsOnAGpu) {
  const std::vector<double> few = {NAN, INFINITY, -INFINITY, 3e9,  -3e9,   1e30, -1e30, 0x1p31,
                                   300, 1.7,      -1.7,      -0.5, -129.5, 255,  1e18,  -0x1p31};
  std::vector<double> many;  // for vectors and tails
  for (int i = 0; i < 3; ++i) many.insert(many.end(), few.begin(), few.end());
  const auto within = [](double least, double most) {
    return [=](double v) {
      return std::isnan(v) ? 0 : std::trunc(std::min(std::max(v, least), most));
    };
  };
  const auto as_i64 = within(-0x1p63, 0x1p63);
  const auto wrapped = [&](double v) {
    const double whole = as_i64(v);
    return whole >= 0x1p63 ? INT64_MAX : static_cast<int64_t>(whole);
  };
  for (const Device device : devices())
    for (const DType dtype : {f32, f64, bf16}) {
      const Tensor x = array(many, {48}, dtype).to(device);
      for (const Tensor& from : {x, x.slice(0, 1, 48, 2)}) {
        const std::vector<double> numbers = values(from);
        const auto check = [&](DType to, const auto& want) {
          const std::vector<double> got = values(from.to(to));
          for (size_t i = 0; i < got.size(); ++i)
            EXPECT_EQ(got[i], want(numbers[i]))
                << numbers[i] << " " << name(dtype) << " to " << name(to) << " on " << device.str();
        };
        check(i32, within(INT32_MIN, INT32_MAX));
        check(i64, as_i64);
        check(i8, [&](double v) { return static_cast<double>(static_cast<int8_t>(wrapped(v))); });
        check(u8, [&](double v) { return static_cast<double>(static_cast<uint8_t>(wrapped(v))); });
      }
    }
  EXPECT_EQ(full({}, NAN).item<int64_t>(), 0);
  EXPECT_EQ(full({}, 1e30).item<int64_t>(), INT64_MAX);
}

// Piecewise functions: dy passes at NaN as above 0 (PyTorch).
TEST(Range, GradientsAtNan) {
  const auto gradient = [](const Tensor& x0, const auto& f) {
    Tensor x = x0.detach().set_requires_grad();
    const Tensor y = f(x);
    y.backward(ones(y.shape(), {.dtype = y.dtype(), .device = y.device()}));
    return values(x.grad())[0];
  };
  for (const Device device : devices())
    for (const DType dtype : {f32, f64, f16})
      for (const int64_t n : {1, 37}) {
        const Tensor x = full({n}, NAN, {.dtype = dtype, .device = device});
        SCOPED_TRACE(std::string(name(dtype)) + " on " + device.str());
        EXPECT_EQ(gradient(x, [](const Tensor& t) { return relu(t); }), 1);
        EXPECT_EQ(gradient(x, [](const Tensor& t) { return elu(t); }), 1);
        EXPECT_EQ(gradient(x, [](const Tensor& t) { return leaky_relu(t, 0.5); }), 0.5);
        EXPECT_EQ(gradient(x, [](const Tensor& t) { return clamp(t, -1, 1); }), 0);
        EXPECT_EQ(gradient(x, [](const Tensor& t) { return abs(t); }), 0);
        for (const auto& f : {smooth_l1_loss, huber_loss})
          EXPECT_TRUE(std::isnan(gradient(
              x, [&](const Tensor& t) { return f(t, zeros_like(t), 1, Reduction::none); })));
      }
}

TEST(Range, SlopesOfAtan2DoNotOverflowOnTheWay) {
  for (const Device device : devices())
    for (const DType dtype : {f16, bf16, f32, f64}) {
      // Squares of these are no numbers of their dtype.
      const double large = dtype == f16   ? 0x1p14
                           : dtype == f64 ? 0x1p600
                                          : 0x1p80,
                   small = 1 / large;
      const auto slopes = [&](double a, double b) {
        Tensor ta = full({1}, a, {.dtype = dtype, .device = device}).set_requires_grad();
        Tensor tb = full({1}, b, {.dtype = dtype, .device = device}).set_requires_grad();
        sum(atan2(ta, tb)).backward();
        return std::pair{ta.grad().item(), tb.grad().item()};
      };
      EXPECT_EQ(slopes(large, large), std::pair(0.5 / large, -0.5 / large));
      EXPECT_EQ(slopes(-small, small), std::pair(0.5 / small, 0.5 / small));
      EXPECT_EQ(slopes(0, -large), std::pair(-1 / large, -0.0));
      for (const double infinite : {INFINITY, -INFINITY}) {
        EXPECT_EQ(slopes(1, infinite), std::pair(0.0, 0.0));
        EXPECT_EQ(slopes(infinite, infinite), std::pair(0.0, 0.0));
      }
      EXPECT_TRUE(std::isnan(slopes(NAN, 1).first));
    }
}

// Less one, such exponents are an integer, to the power of which -2 has a slope.
TEST(Range, RootsOfNegativeNumbersHaveNoSlope) {
  for (const Device device : devices())
    for (const DType dtype : {f16, bf16, f32, f64}) {
      const double tiny = dtype == f16 ? 0x1p-14 : 0x1p-60;
      const Tensor b = array({tiny, 0, 2, -1}, {4}).to(dtype).to(device);
      const Tensor x = full({4}, -2, {.dtype = dtype, .device = device}).set_requires_grad();
      sum(pow(x, b)).backward();
      expect_near(x.grad(), array({NAN, 0, -4, -0.25}, {4}), 0, "gradient");
    }
}

}  // namespace
}  // namespace brim::contract
