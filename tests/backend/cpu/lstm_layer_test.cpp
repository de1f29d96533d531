// A layer of an LSTM in training, one kernel each way on the CPU, beside the ops that it stands
// for.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/matmul.h>
#include <brim/ops/recurrent.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>

#include "distance.h"
#include "ops/recurrent/layer.h"
#include "threads.h"

namespace brim {
namespace {

using backend::RecurrentCell;
using tests::distance;
using Tensors = std::vector<Tensor>;

struct Problem {
  int64_t steps, batch, in, hidden;
  bool bias = true;
};

/// Sizes beside those of tiles and passes, a batch longer than a pass, one step.
constexpr Problem kProblems[] = {{9, 8, 5, 7},    {3, 31, 17, 33},      {1, 70, 4, 6},
                                 {64, 7, 9, 12},  {2, 450, 3, 11},      {40, 13, 70, 40},
                                 {6, 32, 48, 64}, {5, 16, 8, 24, false}};

/// x, h, c and the weights of a layer, with its biases.
Tensors leaves_of(const Problem& p, DType dtype) {
  const double scale = 1 / std::sqrt(static_cast<double>(p.hidden));
  const int64_t rows = 4 * p.hidden;
  std::vector<Shape> shapes = {{p.steps, p.batch, p.in},
                               {p.batch, p.hidden},
                               {p.batch, p.hidden},
                               {rows, p.in},
                               {rows, p.hidden}};
  if (p.bias) shapes.insert(shapes.end(), 2, {rows});
  Tensors leaves;
  for (const Shape& shape : shapes) {
    const Tensor x = randn(shape, {.dtype = dtype});
    leaves.push_back((leaves.size() < 3 ? x : x * scale).detach().set_requires_grad());
  }
  return leaves;
}

/// y and the states after the last step.
Tensors by_layer(const Tensors& in, bool reverse = false) {
  const bool bias = in.size() > 5;
  return ops::recurrent_layer(RecurrentCell::lstm, in[0],
                              {in[3], in[4], bias ? in[5] : Tensor(), bias ? in[6] : Tensor()},
                              {in[1], in[2]}, reverse);
}
Tensors by_ops(const Tensors& in, bool reverse = false) {
  const Tensor gates = linear(in[0], in[3], in.size() > 5 ? in[5] + in[6] : Tensor());
  const Tensors all = lstm(gates, in[4], in[1], in[2], {.reverse = reverse});
  const int64_t last = reverse ? 0 : in[0].size(0) - 1;
  return {all[0], all[0][last], all[1][last]};
}

/// The outputs and the gradients of the inputs that need one.
template <class F>
Tensors both_ways(const F& compute, const Tensors& in) {
  Tensors all = compute(in), wanted, cotangents;
  for (const Tensor& x : in)
    if (x.requires_grad()) wanted.push_back(x);
  for (const Tensor& y : all) cotangents.push_back(cos(y.detach() * 3));
  const Tensors d = autograd::grad(all, wanted, cotangents);
  all.insert(all.end(), d.begin(), d.end());
  return all;
}

void expect_same(const Tensors& got, const Tensors& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(distance(got[i], want[i]), tolerance) << i;
}

TEST(LstmLayer, IsWhatItsOpsAre) {
  for (const Problem& p : kProblems)
    for (const DType dtype : {f32, f64}) {
      SCOPED_TRACE(fmt::format("{} steps of {} samples, {}", p.steps, p.batch, name(dtype)));
      const Tensors in = leaves_of(p, dtype);
      const double tolerance = dtype == f32 ? 5e-4 : 1e-11;
      expect_same(both_ways([](const Tensors& t) { return by_layer(t); }, in),
                  both_ways([](const Tensors& t) { return by_ops(t); }, in), tolerance);
    }
}

TEST(LstmLayer, GoesFromTheLastStepToTheFirst) {
  const Tensors in = leaves_of({20, 9, 6, 10}, f64);
  expect_same(both_ways([](const Tensors& t) { return by_layer(t, true); }, in),
              both_ways([](const Tensors& t) { return by_ops(t, true); }, in), 1e-11);
}

TEST(LstmLayer, LeavesOutGradientsThatNobodyWants) {
  for (size_t wanted = 0; wanted < 7; ++wanted) {
    Tensors in = leaves_of({20, 9, 6, 10}, f64);
    for (size_t i = 0; i < in.size(); ++i) in[i].set_requires_grad(i == wanted);
    expect_same(both_ways([](const Tensors& t) { return by_layer(t); }, in),
                both_ways([](const Tensors& t) { return by_ops(t); }, in), 1e-11);
  }
}

/// With few samples the input's products run apart from the steps, which have fewer parts.
TEST(LstmLayer, ThreadsChangeNoBit) {
  for (const int64_t batch : {1, 5, 16, 32}) {
    const Tensors in = leaves_of({80, batch, 40, 64}, f32);
    const auto bits = [&](int count) {
      const tests::Threads threads(count);
      std::vector<std::vector<float>> all;
      for (const Tensor& t : both_ways([](const Tensors& x) { return by_layer(x); }, in))
        all.push_back(t.detach().to_vector<float>());
      return all;
    };
    const auto one = bits(1);
    for (const int count : {2, 3, 8}) EXPECT_EQ(bits(count), one) << batch << ", " << count;
  }
}

}  // namespace
}  // namespace brim
