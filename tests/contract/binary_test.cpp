// Contract cases of the elementwise functions of two tensors, and of a tensor and a number.
#include <brim/ops/binary.h>

#include <cmath>

#include "contract/contract.h"

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

}  // namespace
}  // namespace brim::contract
