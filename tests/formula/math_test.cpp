// The f32 functions of formula/math.h against f64, over a sweep of all magnitudes and at the edges.
// They are called through ops, so that the loops which users run are the ones tested.
#include <brim/formula/math.h>

#include <gtest/gtest.h>

#include <brim/ops/binary.h>
#include <brim/ops/unary.h>

namespace brim {
namespace {

/// Every `step`-th float from -infinity to infinity, and the special ones.
std::vector<float> sweep(uint32_t step) {
  std::vector<float> x = {0.0f,   -0.0f,     INFINITY,        -INFINITY, NAN,      1.0f,
                          -1.0f,  88.72283f, 88.7229f,        -87.3366f, -103.97f, -104.1f,
                          1e-45f, -1e-45f,   1.17549435e-38f, 1e8f};
  for (uint64_t bits = 0; bits < 0x7f800000u; bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    x.push_back(-x.back());
  }
  return x;
}

/// |y - exact| in units of the last place of a float near `exact`.
double ulps(float y, double exact) {
  if (std::isnan(exact) || std::isnan(y)) return std::isnan(exact) && std::isnan(y) ? 0 : 1e30;
  const float rounded = static_cast<float>(exact);
  if (std::isinf(rounded) || std::isinf(y)) {
    // The largest float is as good as infinity where the exact value lies between the two.
    return rounded == y ? 0 : std::abs(exact) < 3.4028236e38 && std::isinf(y) ? 1 : 1e30;
  }
  int exponent;
  std::frexp(exact, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent, -125) - 24);
  return std::abs(static_cast<double>(y) - exact) / unit;
}

void check(Tensor (*op)(const Tensor&), double (*exact)(double), double bound) {
  const std::vector<float> x = sweep(100003);  // prime: all mantissas come up
  const Tensor input = Tensor::from(x, {static_cast<int64_t>(x.size())});
  const std::vector<float> y = op(input).to_vector<float>();
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = ulps(y[i], exact(static_cast<double>(x[i])));
    if (e > worst) worst = e, at = x[i];
  }
  testing::Test::RecordProperty("ulp", std::to_string(worst));
  EXPECT_LE(worst, bound) << "at " << at;
}

using F = double (*)(double);

TEST(Math, Exp) { check(exp, F(std::exp), 2); }
TEST(Math, Expm1) { check(expm1, F(std::expm1), 2); }
TEST(Math, Log) { check(log, F(std::log), 2); }
TEST(Math, Log1p) { check(log1p, F(std::log1p), 2); }
TEST(Math, Log2) { check(log2, F(std::log2), 1); }
TEST(Math, Log10) { check(log10, F(std::log10), 1); }
TEST(Math, Tanh) { check(tanh, F(std::tanh), 2.5); }
TEST(Math, Erf) { check(erf, F(std::erf), 2); }
TEST(Math, Sin) { check(sin, F(std::sin), 2); }
TEST(Math, Cos) { check(cos, F(std::cos), 2); }
TEST(Math, Sigmoid) {
  check(
      sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 3);
}

TEST(Math, Softplus) {
  check([](const Tensor& x) { return softplus(x); },
        [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }, 3.5);
}

/// Pairs of floats: all magnitudes in either order of size, at odd places of a vector, and every
/// pair of special ones.
struct Pairs {
  std::vector<float> a, b;
  Tensor first() const { return Tensor::from(a, {static_cast<int64_t>(a.size())}); }
  Tensor second() const { return Tensor::from(b, {static_cast<int64_t>(b.size())}); }
};
Pairs pairs(float spread) {
  Pairs p;
  uint32_t state = 1;
  const auto next = [&] { return state = state * 1664525u + 1013904223u; };
  for (int i = 0; i < 200003; ++i) {
    const float a = std::bit_cast<float>(next() & 0xff7fffffu);  // finite
    const float ratio = std::exp2(spread * (static_cast<float>(next() >> 8) * 0x1p-23f - 1));
    p.a.push_back(a);
    p.b.push_back(i % 3 == 0 ? std::trunc(a) : a * ratio);
  }
  const std::vector<float> special = {0,         -0.0f,   1,          -1,          0.5f,
                                      1e-45f,    -1e-45f, 1e-40f,     3,           -3,
                                      1e8f,      3e8f,    3.4028e38f, -3.4028e38f, INFINITY,
                                      -INFINITY, NAN,     1.5f,       1e20f,       1.17549435e-38f};
  for (const float a : special)
    for (const float b : special) p.a.push_back(a), p.b.push_back(b);
  return p;
}

TEST(Math, Atan2) {
  const Pairs p = pairs(40);
  const std::vector<float> y = atan2(p.first(), p.second()).to_vector<float>();
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double exact = std::atan2(static_cast<double>(p.a[i]), static_cast<double>(p.b[i]));
    worst = std::max(worst, ulps(y[i], exact));
    if (!std::isnan(exact)) {
      EXPECT_EQ(std::signbit(y[i]), std::signbit(exact)) << p.a[i] << ' ' << p.b[i];
    }
  }
  EXPECT_LE(worst, 1);
}

TEST(Math, Pow) {
  Pairs p = pairs(6);
  for (size_t i = 0; i < 200003; ++i) {  // with results all over the range of floats
    const double digits = std::log2(std::fabs(static_cast<double>(p.a[i])));
    const double t = 150 * std::sin(static_cast<double>(i));
    p.b[i] = static_cast<float>(i % 3 == 0 ? std::trunc(t / 8) : t / digits);
  }
  const auto expect = [&](const Tensor& got) {
    const std::vector<float> y = got.to_vector<float>();
    double worst = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double exact = std::pow(static_cast<double>(p.a[i]), static_cast<double>(p.b[i]));
      worst = std::max(worst, ulps(y[i], exact));
      if (!std::isnan(exact)) {
        EXPECT_EQ(std::signbit(y[i]), std::signbit(exact)) << p.a[i] << ' ' << p.b[i];
      }
    }
    EXPECT_LE(worst, 1);
  };
  expect(pow(p.first(), p.second()));
  for (const float exponent : {2.5f, -3.0f, 0.0f, INFINITY, NAN}) {
    std::fill(p.b.begin(), p.b.end(), exponent);
    expect(pow(p.first(), static_cast<double>(exponent)));
  }
}

/// The same bits; any NaN is as good as another.
void expect_same(float got, float want, float a, float b) {
  if (std::isnan(want) && std::isnan(got)) return;
  ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want))
      << got << " is not " << want << " for " << a << " and " << b;
}

TEST(Math, FmodAndRemainderAreExact) {
  for (const float spread : {2.0f, 20.0f, 32.0f, 140.0f}) {
    const Pairs p = pairs(spread);
    const std::vector<float> f = fmod(p.first(), p.second()).to_vector<float>();
    const std::vector<float> r = remainder(p.first(), p.second()).to_vector<float>();
    for (size_t i = 0; i < f.size(); ++i) {
      const float a = p.a[i], b = p.b[i], left = std::fmod(a, b);
      expect_same(f[i], left, a, b);
      expect_same(r[i], left != 0 && (left < 0) != (b < 0) ? left + b : left, a, b);
    }
  }
}

TEST(Math, FmodOfANumber) {
  const std::vector<float> x = sweep(1000003);
  const Tensor input = Tensor::from(x, {static_cast<int64_t>(x.size())});
  for (const double value : {1.0, -0.7, 3e-39, 1e30}) {
    const float b = static_cast<float>(value);
    const std::vector<float> y = fmod(input, value).to_vector<float>();
    for (size_t i = 0; i < x.size(); ++i) expect_same(y[i], std::fmod(x[i], b), x[i], b);
  }
}

TEST(Math, LogarithmsOfPowersAreExact) {
  for (int i = -30; i <= 30; ++i) {
    const float two = std::ldexp(1.0f, i), ten = static_cast<float>(std::pow(10.0, i));
    EXPECT_EQ(log2(Tensor::from<float>({two}, {})).item<float>(), static_cast<float>(i));
    EXPECT_EQ(log10(Tensor::from<float>({ten}, {})).item<float>(), static_cast<float>(i));
  }
}

TEST(Math, SignOfZeroIsKept) {
  const Tensor zero = Tensor::from<float>({-0.0f}, {1});
  for (auto op : {expm1, log1p, tanh, erf, sin}) EXPECT_TRUE(std::signbit(op(zero).item<float>()));
}

}  // namespace
}  // namespace brim
