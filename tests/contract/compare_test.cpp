// Contract cases of comparisons, logic and selection by a mask.
#include <brim/ops/compare.h>

#include <cmath>

#include <brim/ops/binary.h>

#include "contract/contract.h"

namespace brim::contract {
namespace {

const std::vector<DType> kAll = {f32, f64, f16, bf16, i64, i32, i8, u8, bool_};

/// Few distinct whole numbers, so that equal ones occur.
std::vector<std::vector<Input>> whole_pairs(DType dtype) {
  std::vector<std::vector<Input>> all = binary_shapes(0, 3);
  for (auto& inputs : all)
    for (Input& in : inputs) in.dtype = dtype;
  return all;
}

using Op = Tensor (*)(const Tensor&, const Tensor&);
using NumberOp = Tensor (*)(const Tensor&, double);
using Truth = bool (*)(double, double);

Function truth(Truth f) {
  return each2([f](double a, double b) { return f(a, b) ? 1 : 0; }, bool_);
}

/// Two tensors of every dtype, and a tensor with a number.
void compare(Op op, NumberOp number_op, Truth f) {
  for (DType dtype : kAll)
    run({.op = op, .inputs = whole_pairs(dtype), .reference = truth(f), .dtypes = {f32}});
  run({.op = [=](Tensor x) { return number_op(x, 1); },
       .inputs = unary_shapes(0, 3),
       .reference = each([=](double x) { return f(x, 1) ? 1 : 0; }, bool_),
       .dtypes = kAll,
       .gradient = false});
}

#define COMPARE(op, sign)                                         \
  TEST(Contract, op) {                                            \
    compare(op, op, [](double a, double b) { return a sign b; }); \
  }
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)

TEST(Contract, logical) {
  for (DType dtype : {bool_, i64, f32}) {
    auto check = [&](Op op, Truth f) {
      run({.op = op, .inputs = whole_pairs(dtype), .reference = truth(f), .dtypes = {f32}});
    };
    check(logical_and, [](double a, double b) { return a && b; });
    check(logical_or, [](double a, double b) { return a || b; });
    check(logical_xor, [](double a, double b) { return !a != !b; });
  }
}
TEST(Compare, NumbersThatADoubleCannotHoldAreErrors) {
  const Tensor x = Tensor::from<int64_t>({(int64_t{1} << 53) + 1, 5}, {2});
  EXPECT_THROW(eq(x, 0x1p53), ValueError);
  EXPECT_THROW((void)(x < 1e300), ValueError);
  EXPECT_EQ((x > 0x1p53 - 1).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ((x < INFINITY).to_vector<bool>(), (std::vector<bool>{true, true}));
  EXPECT_THROW(add(x, 0x1p53), ValueError);
  EXPECT_EQ((x.to(f64) < 1e300).to_vector<bool>(), (std::vector<bool>{true, true}));
}
CONTRACT(logical_not) {
  return {.op = logical_not,
          .inputs = unary_shapes(0, 3),
          .reference = each([](double x) { return x == 0; }, bool_),
          .dtypes = kAll,
          .gradient = false};
}

std::vector<std::vector<Input>> masked(int values) {
  const Shape shapes[][3] = {{{3, 5, 7}, {3, 5, 7}, {3, 5, 7}},
                             {{3, 1}, {2, 1, 5}, {}},
                             {{4, 3, 5}, {5}, {3, 1}},
                             {{}, {4}, {4}},
                             {{0, 3}, {3}, {1, 3}}};
  std::vector<std::vector<Input>> all;
  for (const auto& s : shapes) {
    all.push_back({{.shape = s[0], .low = 0, .high = 1, .dtype = bool_}});
    for (int i = 1; i <= values; ++i) all.back().push_back({.shape = s[i]});
  }
  return all;
}

CONTRACT(where) {
  return {.op = where,
          .inputs = masked(2),
          .reference =
              [](Tensor condition, Tensor a, Tensor b) {
                auto first = each2([](double c, double x) { return c != 0 ? x : NAN; });
                auto second = each2([](double x, double y) { return std::isnan(x) ? y : x; });
                return second({first({condition, a})[0], b});
              },
          .dtypes = {f32, f64, f16, i64, u8}};
}
CONTRACT(masked_fill) {
  return {.op = [](Tensor mask, Tensor x) { return masked_fill(x, mask, 7); },
          .inputs = masked(1),
          .reference = each2([](double m, double x) { return m != 0 ? 7 : x; }),
          .dtypes = {f32, f64, bf16, i64, u8}};
}

}  // namespace
}  // namespace brim::contract
