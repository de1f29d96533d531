// Contract cases of softmax and log_softmax.
#include <brim/ops/softmax.h>

#include <cmath>

#include <brim/ops/create.h>

#include "contract/contract.h"

namespace brim::contract {
namespace {

Function softmax_reference(int axis, bool log) {
  return [=](Tensor x) {
    const int a = axis < 0 ? axis + std::max(x.rank(), 1) : axis;
    int64_t n = x.rank() ? x.shape()[a] : 1, inner = 1;
    for (int i = a + 1; i < x.rank(); ++i) inner *= x.shape()[i];
    std::vector<double> v = values(x);
    for (int64_t i = 0; i < x.numel(); ++i) {
      if (n == 0 || i / inner % n != 0) continue;
      double sum = 0;
      for (int64_t k = 0; k < n; ++k) sum += std::exp(v[static_cast<size_t>(i + k * inner)]);
      for (int64_t k = 0; k < n; ++k) {
        double& e = v[static_cast<size_t>(i + k * inner)];
        e = log ? e - std::log(sum) : std::exp(e) / sum;
      }
    }
    return array(v, x.shape());
  };
}

std::vector<std::vector<Input>> shapes() {
  return {{{{4, 10}}}, {{{3, 33}}}, {{{2, 5, 3}}}, {{{1, 1}}}, {{{0, 3}}}, {{{3, 0}}}};
}

CONTRACT(softmax_last) {
  return {.op = [](Tensor x) { return softmax(x, -1); },
          .inputs = shapes(),
          .reference = softmax_reference(-1, false)};
}
CONTRACT(softmax_first) {
  return {.op = [](Tensor x) { return softmax(x, 0); },
          .inputs = shapes(),
          .reference = softmax_reference(0, false)};
}
CONTRACT(softmax_columns) {
  return {.op = [](Tensor x) { return softmax(x, 1); },
          .inputs = {{{{2, 3, 70}}}, {{{1, 4, 2, 3}}}},
          .reference = softmax_reference(1, false)};
}
CONTRACT(log_softmax_last) {
  return {.op = [](Tensor x) { return log_softmax(x, -1); },
          .inputs = shapes(),
          .reference = softmax_reference(-1, true)};
}
CONTRACT(log_softmax_first) {
  return {.op = [](Tensor x) { return log_softmax(x, 0); },
          .inputs = shapes(),
          .reference = softmax_reference(0, true)};
}
CONTRACT(softmax_scalar) {
  return {.op = [](Tensor x) { return softmax(x, 0); },
          .inputs = {{{{}}}},
          .reference = softmax_reference(0, false)};
}

TEST(Softmax, LargeNumbersAndInfinities) {
  const float inf = INFINITY;
  for (const int axis : {0, 1}) {
    const Shape shape = axis ? Shape{1, 3} : Shape{3, 1};
    const auto of = [&](float a, float b, float c) {
      return softmax(Tensor::from<float>({a, b, c}, shape), axis).to_vector<float>();
    };
    EXPECT_EQ(of(1000, -1000, -inf), (std::vector<float>{1, 0, 0}));
    EXPECT_EQ(of(-3e38f, -3e38f, -inf), (std::vector<float>{0.5, 0.5, 0}));
    EXPECT_TRUE(std::isnan(of(-inf, -inf, -inf)[0]));
    EXPECT_TRUE(std::isnan(of(0, NAN, 1)[2]));
    const Tensor x = Tensor::from<float>({1000, 0, -inf}, shape);
    EXPECT_EQ(log_softmax(x, axis).to_vector<float>(), (std::vector<float>{0, -1000, -inf}));
  }
}

TEST(Softmax, OneNanSpoilsItsSliceOnly) {
  for (const int64_t at : {0, 5, 70, 99}) {
    Tensor x = zeros({3, 100});
    x.slice(0, 1, 2).slice(1, at, at + 1).fill_(NAN);
    const std::vector<double> rows = values(softmax(x, 1)), columns = values(softmax(x, 0));
    for (int64_t i = 0; i < 300; ++i) {
      EXPECT_EQ(std::isnan(rows[static_cast<size_t>(i)]), i / 100 == 1) << at;
      EXPECT_EQ(std::isnan(columns[static_cast<size_t>(i)]), i % 100 == at) << at;
    }
  }
}

TEST(Softmax, NanReachesTheGradient) {
  for (const int axis : {0, 1}) {
    Tensor x = ones({5, 5});
    x.slice(0, 2, 3).slice(1, 2, 3).fill_(NAN);
    x.set_requires_grad();
    log_softmax(x, axis).backward(ones({5, 5}));
    const std::vector<double> g = values(x.grad());
    for (size_t i = 0; i < 25; ++i)
      EXPECT_EQ(std::isnan(g[i]), (axis == 1 ? i / 5 : i % 5) == 2) << axis << " " << i;
  }
}

TEST(Softmax, ChecksItsInput) {
  EXPECT_THROW(softmax(Tensor::from<int64_t>({1}, {1}), 0), DTypeError);
  EXPECT_THROW(softmax(Tensor::from<float>({1}, {1}), 1), IndexError);
}

}  // namespace
}  // namespace brim::contract
