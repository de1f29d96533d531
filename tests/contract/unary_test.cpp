// Contract cases of the elementwise functions of one tensor.
#include <brim/ops/unary.h>

#include <cmath>

#include <brim/ops/binary.h>
#include <brim/ops/compare.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>

#include "contract/contract.h"

namespace brim::contract {
namespace {

/// A case from the op, its scalar reference and the range of its inputs.
Case floats(Function op, std::function<double(double)> reference, double low = -2,
            double high = 2) {
  return {
      .op = op, .inputs = unary_shapes(low, high), .reference = each(reference), .dtypes = kFloats};
}
Case numbers(Function op, std::function<double(double)> reference,
             const std::vector<DType>& dtypes = kNumbers) {
  return {.op = op, .inputs = unary_shapes(-5, 5), .reference = each(reference), .dtypes = dtypes};
}

using F = double (*)(double);  // picks the overload of a function of <cmath>

CONTRACT(neg) {
  return numbers(
      neg, [](double x) { return -x; }, kSigned);
}
CONTRACT(abs) { return numbers(abs, F(std::fabs)); }
CONTRACT(sign) {
  return numbers(sign, [](double x) { return double((x > 0) - (x < 0)); });
}
CONTRACT(square) {
  return numbers(square, [](double x) { return x * x; });
}
CONTRACT(relu) {
  return numbers(relu, [](double x) { return x > 0 ? x : 0; });
}
CONTRACT(clamp) {
  return numbers([](Tensor x) { return clamp(x, -1, 2); },
                 [](double x) { return std::min(std::max(x, -1.0), 2.0); });
}
CONTRACT(clamp_below) {
  return numbers([](Tensor x) { return clamp(x, {}, 1); },
                 [](double x) { return std::min(x, 1.0); });
}

CONTRACT(exp) { return floats(exp, F(std::exp)); }
CONTRACT(expm1) { return floats(expm1, F(std::expm1)); }
CONTRACT(log) { return floats(log, F(std::log), 0.2, 4); }
CONTRACT(log1p) { return floats(log1p, F(std::log1p), -0.7, 3); }
CONTRACT(log2) { return floats(log2, F(std::log2), 0.2, 4); }
CONTRACT(log10) { return floats(log10, F(std::log10), 0.2, 4); }
CONTRACT(sqrt) { return floats(sqrt, F(std::sqrt), 0.2, 4); }
CONTRACT(rsqrt) {
  return floats(
      rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.3, 4);
}
CONTRACT(reciprocal) {
  return floats(
      reciprocal, [](double x) { return 1 / x; }, 0.4, 3);
}
CONTRACT(sin) { return floats(sin, F(std::sin), -9, 9); }
CONTRACT(cos) { return floats(cos, F(std::cos), -9, 9); }
CONTRACT(tanh) { return floats(tanh, F(std::tanh)); }
CONTRACT(erf) { return floats(erf, F(std::erf)); }
CONTRACT(floor) { return floats(floor, F(std::floor)); }
CONTRACT(ceil) { return floats(ceil, F(std::ceil)); }
CONTRACT(round) { return floats(round, F(std::nearbyint)); }

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double phi(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }

CONTRACT(sigmoid) { return floats(sigmoid, sigmoid_of, -6, 6); }
CONTRACT(leaky_relu) {
  return floats([](Tensor x) { return leaky_relu(x, 0.1); },
                [](double x) { return x > 0 ? x : 0.1 * x; });
}
CONTRACT(elu) {
  return floats([](Tensor x) { return elu(x, 1.5); },
                [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); });
}
CONTRACT(gelu) {
  return floats([](Tensor x) { return gelu(x); }, [](double x) { return x * phi(x); }, -4, 4);
}
CONTRACT(gelu_tanh) {
  return floats([](Tensor x) { return gelu(x, GeluForm::tanh); },
                [](double x) {
                  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
                  return 0.5 * x * (1 + std::tanh(u));
                },
                -4, 4);
}
CONTRACT(silu) {
  return floats(
      silu, [](double x) { return x * sigmoid_of(x); }, -6, 6);
}
CONTRACT(softplus) {
  return floats([](Tensor x) { return softplus(x, 2, 6); },  // both sides of the threshold
                [](double x) { return 2 * x > 6 ? x : std::log1p(std::exp(2 * x)) / 2; }, -4, 4.5);
}

TEST(Clamp, NanBoundsGiveNan) {
  Tensor x = Tensor::from<float>({-1, 2}, {2}).set_requires_grad();
  for (const auto& y : {clamp(x, NAN), clamp(x, {}, NAN), clamp(x, NAN, 1)})
    EXPECT_EQ(sum(isnan(y)).item<int64_t>(), 2);
  EXPECT_EQ(clamp(Tensor::from<int64_t>({-5, 5}, {2}), -INFINITY, 3).to_vector<int64_t>(),
            (std::vector<int64_t>{-5, 3}));
}

Case power(double exponent, double low = 0.2) {
  return floats([=](Tensor x) { return pow(x, exponent); },
                [=](double x) { return std::pow(x, exponent); }, low, 2);
}
CONTRACT(pow_0) { return power(0, -2); }
CONTRACT(pow_1) { return power(1, -2); }
CONTRACT(pow_2) { return power(2, -2); }
CONTRACT(pow_3) { return power(3, -2); }
CONTRACT(pow_4) { return power(4, -2); }
CONTRACT(pow_half) { return power(0.5); }
CONTRACT(pow_minus_half) { return power(-0.5, 0.4); }
CONTRACT(pow_minus_1) { return power(-1, 0.4); }
CONTRACT(pow_2p5) { return power(2.5); }

TEST(Softplus, ThresholdBelowZero) {
  const Tensor x = Tensor::from<float>({-6, -3, -1, 2}, {4});
  const std::vector<float> y = softplus(x, 1, -5).to_vector<float>();  // x itself above -5
  EXPECT_NEAR(y[0], std::log1p(std::exp(-6.0)), 1e-8);
  EXPECT_EQ((std::vector<float>{y[1], y[2], y[3]}), (std::vector<float>{-3, -1, 2}));
}

TEST(Remainder, KeepsTheSignOfZero) {
  const Tensor left = remainder(full({9}, -3.0F), full({9}, 0.5F));
  for (const float v : left.to_vector<float>()) EXPECT_TRUE(v == 0 && std::signbit(v));
}

}  // namespace
}  // namespace brim::contract
