// Fully connected layers in 16 bits, whichever instruction set has products of them, against the
// same numbers in f64.
#include <gtest/gtest.h>

#include <brim/brim.h>

#include <limits>
#include <string>
#include <vector>

#include "backend/expect_close.h"
#include "backend/fused/fused_linear.h"
#include "backend/linear_layer.h"
#include "threads.h"

namespace brim {
namespace {

using tests::LinearLayer;
using tests::LinearSize;
using tests::Threads;

constexpr LinearSize kSizes[] = {{0, 5, 3},     {1, 1, 1},      {1, 300, 5},   {3, 1, 5},
                                 {7, 3, 0},     {3, 0, 4},      {1, 129, 70},  {5, 64, 200},
                                 {40, 129, 7},  {130, 33, 97},  {64, 300, 50}, {131, 300, 67},
                                 {300, 40, 10}, {1030, 70, 30}, {20, 1200, 90}};

Tensor wide(const Tensor& x) { return x.defined() ? x.to(DType::f64) : x; }

LinearLayer wide(LinearLayer l) {
  for (Tensor* t : {&l.x, &l.weight, &l.bias, &l.dy}) *t = wide(*t);
  return l;
}

/// Half a unit in the last place of 16 bits, twice for the sum's own rounding.
double tolerance(DType dtype) { return dtype == DType::f16 ? 0x1p-10 : 0x1p-7; }

Tensor forward(const char* name, const LinearLayer& l, const Tensor& bias) {
  const backend::LinearKernel kernel(name);
  Tensor y = full({l.x.shape()[0], l.weight.shape()[0]}, 7, {.dtype = l.x.dtype()});
  kernel(l.x.device(), l.x.dtype(), l.x, l.weight, bias, y);
  return y;
}

std::vector<Tensor> gradients(const LinearLayer& l, const Tensor& y, bool all = true) {
  const backend::LinearGradKernel kernel("linear_grad");
  const TensorOptions options{.dtype = l.x.dtype()};
  Tensor dx, dw = full(l.weight.shape(), 7, options), db;
  if (all) dx = full(l.x.shape(), 7, options);
  if (all) db = full({l.weight.shape()[0]}, 7, options);
  kernel(l.x.device(), l.x.dtype(), l.x, l.weight, l.dy, y, dx, dw, db);
  return all ? std::vector<Tensor>{dw, dx, db} : std::vector<Tensor>{dw};
}

void expect_layer(const LinearLayer& l, const std::string& what) {
  const LinearLayer exact = wide(l);
  const double bound = tolerance(l.x.dtype());
  for (const char* name : {"linear", "linear_relu"})
    for (const bool with_bias : {false, true})
      expect_close(forward(name, l, with_bias ? l.bias : Tensor()),
                   forward(name, exact, with_bias ? exact.bias : Tensor()), bound,
                   what + ", " + name);
  const Tensor y = relu(linear(l.x, l.weight, l.bias));
  for (const Tensor& of : {Tensor(), y, y.t().contiguous().t()})
    for (const bool all : {false, true}) {
      const auto actual = gradients(l, of, all), expected = gradients(exact, wide(of), all);
      for (size_t i = 0; i < actual.size(); ++i)
        expect_close(actual[i], expected[i], bound,
                     what + ", gradient " + std::to_string(i) + (of.defined() ? " of relu" : ""));
    }
}

class Linear16Bits : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, Linear16Bits, testing::Values(DType::f16, DType::bf16));

TEST_P(Linear16Bits, AsF64Rounded) {
  for (const LinearSize& s : kSizes) expect_layer(LinearLayer(s, GetParam()), s.str());
}

TEST_P(Linear16Bits, StridedOperands) {
  for (const LinearSize s : {LinearSize{6, 40, 9}, LinearSize{50, 70, 21}}) {
    LinearLayer l(s, GetParam());
    for (Tensor* t : {&l.x, &l.weight, &l.dy}) {
      *t = t->t().contiguous().t();
      expect_layer(l, s.str() + ", columns");
    }
    l.bias = l.bias.slice(0, 0, 1).expand({s.outputs});
    l.dy = ones({1}, {.dtype = GetParam()}).expand({s.rows, s.outputs});  // what sum() hands back
    expect_layer(l, s.str() + ", expanded");
    l.x = randn({s.rows, 2 * s.inputs + 1}).to(GetParam()).slice(1, 3, 3 + s.inputs);
    expect_layer(l, s.str() + ", a slice");
  }
}

TEST_P(Linear16Bits, NotANumberIsPassedOn) {
  LinearLayer l({5, 300, 80}, GetParam());
  l.x.slice(0, 1, 2).fill_(std::numeric_limits<double>::quiet_NaN());
  l.dy.slice(0, 3, 4).fill_(std::numeric_limits<double>::quiet_NaN());
  expect_layer(l, "NaN");
}

TEST_P(Linear16Bits, TheSameForAnyNumberOfThreads) {
  for (const LinearSize& s : kSizes) {
    const LinearLayer l(s, GetParam());
    std::vector<std::vector<double>> results[2];
    for (const int threads : {1, 3}) {
      const Threads guard(threads);
      auto& to = results[threads / 2];
      to.push_back(numbers(forward("linear_relu", l, l.bias)));
      for (const Tensor& t : gradients(l, forward("linear_relu", l, l.bias)))
        to.push_back(numbers(t));
    }
    EXPECT_EQ(results[0], results[1]) << s.str();
  }
}

}  // namespace
}  // namespace brim
