// Contract cases of the elementwise functions of two tensors, and of a tensor and a number.
#include <brim/ops/binary.h>

#include <cmath>

#include "contract/contract.h"
#include "contract/harness.h"

namespace brim::contract {
namespace {

Case number_pairs(Function op, std::function<double(double, double)> reference) {
  return {
      .op = op, .inputs = binary_shapes(-5, 5), .reference = each2(reference), .dtypes = kSigned};
}
Case with_number(Function op, std::function<double(double)> reference) {
  return {.op = op, .inputs = unary_shapes(-5, 5), .reference = each(reference), .dtypes = kSigned};
}
Case float_pairs(Function op, std::function<double(double, double)> reference, double low = -2) {
  return {.op = op, .inputs = binary_shapes(low, 2, 0.5, 2), .reference = each2(reference)};
}

CONTRACT(add) {
  return number_pairs([](Tensor a, Tensor b) { return a + b; },
                      [](double a, double b) { return a + b; });
}
CONTRACT(add_alpha) {
  return number_pairs([](Tensor a, Tensor b) { return add(a, b, -3); },
                      [](double a, double b) { return a - 3 * b; });
}
CONTRACT(sub) {
  return number_pairs([](Tensor a, Tensor b) { return a - b; },
                      [](double a, double b) { return a - b; });
}
CONTRACT(mul) {
  return number_pairs([](Tensor a, Tensor b) { return a * b; },
                      [](double a, double b) { return a * b; });
}
CONTRACT(maximum) {
  return number_pairs(maximum, [](double a, double b) { return std::max(a, b); });
}
CONTRACT(minimum) {
  return number_pairs(minimum, [](double a, double b) { return std::min(a, b); });
}
CONTRACT(div) {
  return float_pairs([](Tensor a, Tensor b) { return a / b; },
                     [](double a, double b) { return a / b; });
}
CONTRACT(pow) {
  Case c = float_pairs([](Tensor a, Tensor b) { return pow(a, b); },
                       [](double a, double b) { return std::pow(a, b); }, 0.3);
  return c;
}
CONTRACT(atan2) {
  return {.op = atan2,
          .inputs = binary_shapes(-2, 2, -3, 3),
          .reference = each2([](double a, double b) { return std::atan2(a, b); })};
}
// Away from whole quotients, where a gradient has no value; integers are in the test below.
CONTRACT(remainder) {
  Case c = float_pairs([](Tensor a, Tensor b) { return remainder(a, b); },
                       [](double a, double b) { return a - b * std::floor(a / b); });
  c.tolerance_f64 = 1e-11;
  return c;
}
CONTRACT(fmod) {
  return float_pairs([](Tensor a, Tensor b) { return fmod(a, b); },
                     [](double a, double b) { return std::fmod(a, b); });
}
CONTRACT(remainder_number) {
  return with_number([](Tensor x) { return remainder(x, -3); },
                     [](double x) { return x + 3 * std::floor(x / -3); });
}
CONTRACT(fmod_number) {
  return with_number([](Tensor x) { return fmod(x, 3); }, [](double x) { return std::fmod(x, 3); });
}
CONTRACT(add_number) {
  return with_number([](Tensor x) { return 2 + x; }, [](double x) { return x + 2; });
}
CONTRACT(sub_number) {
  return with_number([](Tensor x) { return x - 2; }, [](double x) { return x - 2; });
}
CONTRACT(number_minus) {
  return with_number([](Tensor x) { return 2 - x; }, [](double x) { return 2 - x; });
}
CONTRACT(mul_number) {
  return with_number([](Tensor x) { return x * -3; }, [](double x) { return x * -3; });
}
CONTRACT(div_number) {
  return {.op = [](Tensor x) { return x / 3; },
          .inputs = unary_shapes(),
          .reference = each([](double x) { return x / 3; })};
}
CONTRACT(number_div) {
  return {.op = [](Tensor x) { return 3 / x; },
          .inputs = unary_shapes(0.5, 2),
          .reference = each([](double x) { return 3 / x; })};
}

TEST(Remainder, OfIntegersIsAsPythons) {
  const auto of = [](auto... v) { return Tensor::from<int64_t>({v...}, {sizeof...(v)}); };
  const Tensor a = of(7, -7, 7, -7, 5, INT64_MIN, INT64_MIN), b = of(3, 3, -3, -3, 0, -1, 0);
  for (const Device device : devices()) {
    const Tensor x = a.to(device), y = b.to(device);
    EXPECT_EQ(remainder(x, y).to_vector<int64_t>(), (std::vector<int64_t>{1, 2, -2, -1, 0, 0, 0}));
    EXPECT_EQ(fmod(x, y).to_vector<int64_t>(), (std::vector<int64_t>{1, -1, 1, -1, 0, 0, 0}));
  }
  const Tensor bytes = Tensor::from<uint8_t>({255, 7}, {2});
  EXPECT_EQ(remainder(bytes, 255).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 7}));
  EXPECT_THROW(remainder(a, 0.5), DTypeError);
}

TEST(Remainder, OfFloatsHasTheSignOfTheDivisor) {
  const Tensor a = Tensor::from<float>({5.5f, -5.5f, 5.5f, 3, 1}, {5});
  const Tensor b = Tensor::from<float>({2, 2, -2, INFINITY, 0}, {5});
  EXPECT_EQ(values(remainder(a, b).slice(0, 0, 4)), (std::vector<double>{1.5, 0.5, -0.5, 3}));
  EXPECT_EQ(values(fmod(a, b).slice(0, 0, 4)), (std::vector<double>{1.5, -1.5, 1.5, 3}));
  EXPECT_TRUE(std::isnan(remainder(a, b)[4].item()));
}

}  // namespace
}  // namespace brim::contract
