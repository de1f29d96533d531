// The fused kernels of fully connected layers and of cross-entropy against the ops and optimizer
// steps whose work they do.
#include <gtest/gtest.h>

#include <brim/brim.h>
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "backend/expect_close.h"
#include "backend/fused/fused_linear.h"
#include "backend/fused/fused_loss.h"
#include "backend/launches.h"
#include "backend/linear_layer.h"
#include "threads.h"

namespace brim {
namespace {

using tests::LinearLayer;
using tests::LinearSize;
using tests::Threads;

constexpr LinearSize kLinearSizes[] = {{0, 5, 3},     {1, 1, 1},     {1, 7, 1},    {3, 1, 5},
                                       {2, 64, 6},    {5, 65, 13},   {7, 3, 0},    {3, 0, 4},
                                       {4, 84, 10},   {8, 200, 29},  {33, 70, 18}, {40, 129, 7},
                                       {130, 33, 97}, {64, 300, 50}, {70, 65, 90}, {131, 300, 67}};

void expect_fused(const Tensor& actual, const Tensor& expected, const std::string& what) {
  expect_close(actual, expected, actual.dtype() == DType::f32 ? 2e-5 : 1e-12, what);
}

bool equal_or_undefined(const Tensor& a, const Tensor& b) {
  return !a.defined() || a.to_vector<double>() == b.to_vector<double>();
}

Tensor run_linear(const char* name, const LinearLayer& l, const Tensor& bias) {
  const backend::LinearKernel kernel(name);
  Tensor y = full({l.x.shape()[0], l.weight.shape()[0]}, 7, {.dtype = l.x.dtype()});
  kernel(l.x.device(), l.x.dtype(), l.x, l.weight, bias, y);
  return y;
}

TEST(FusedLinear, ForwardIsTheProduct) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const LinearSize& s : kLinearSizes) {
      const LinearLayer l(s, dtype);
      const Tensor product = matmul(l.x, l.weight.t());
      expect_fused(run_linear("linear", l, Tensor()), product, s.str());
      expect_fused(run_linear("linear", l, l.bias), product + l.bias, s.str());
      expect_fused(run_linear("linear_relu", l, l.bias), relu(product + l.bias), s.str());
    }
}

TEST(FusedLinear, ForwardOfStridedOperands) {
  const LinearSize s{6, 40, 9};
  LinearLayer l(s, DType::f32);
  const Tensor expected = relu(matmul(l.x, l.weight.t()) + l.bias);
  l.x = l.x.t().contiguous().t();
  expect_fused(run_linear("linear_relu", l, l.bias), expected, "columns of x");
  l.weight = l.weight.t().contiguous().t();
  expect_fused(run_linear("linear_relu", l, l.bias), expected, "columns of weight");
  l.x = l.x.contiguous();
  expect_fused(run_linear("linear_relu", l, l.bias), expected, "rows of x");
  const Tensor wide = randn({6, 80});
  l.x = wide.slice(1, 10, 50);
  expect_fused(run_linear("linear_relu", l, l.bias.slice(0, 0, 1).expand({9})),
               relu(matmul(l.x, l.weight.t()) + l.bias.slice(0, 0, 1)), "a slice");
}

TEST(FusedLinear, ReluKeepsNaN) {
  LinearLayer l({3, 20, 8}, DType::f32);
  l.x.slice(0, 1, 2).fill_(std::numeric_limits<double>::quiet_NaN());
  expect_fused(run_linear("linear_relu", l, l.bias), relu(linear(l.x, l.weight, l.bias)), "NaN");
}

/// The gradients by ops.
struct Grads {
  Tensor dx, dw, db;
};

Grads eager_grads(const LinearLayer& l, const Tensor& y) {
  Tensor dz = l.dy;
  if (y.defined()) dz = where(y <= 0, zeros({1}, {.dtype = l.dy.dtype()}), l.dy);
  return {matmul(dz, l.weight), matmul(dz.t(), l.x), sum(dz, {0})};
}

Grads fused_grads(const LinearLayer& l, const Tensor& y, bool want_dx = true, bool want_db = true) {
  const backend::LinearGradKernel kernel("linear_grad");
  const TensorOptions options{.dtype = l.x.dtype()};
  Grads g;
  if (want_dx) g.dx = full(l.x.shape(), 7, options);
  g.dw = full(l.weight.shape(), 7, options);
  if (want_db) g.db = full({l.weight.shape()[0]}, 7, options);
  kernel(l.x.device(), l.x.dtype(), l.x, l.weight, l.dy, y, g.dx, g.dw, g.db);
  return g;
}

void expect_grads(const Grads& actual, const Grads& expected, const std::string& what) {
  if (actual.dx.defined()) expect_fused(actual.dx, expected.dx, what + ", dx");
  expect_fused(actual.dw, expected.dw, what + ", dw");
  if (actual.db.defined()) expect_fused(actual.db, expected.db, what + ", db");
}

TEST(FusedLinear, Gradients) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const LinearSize& s : kLinearSizes) {
      const LinearLayer l(s, dtype);
      const Tensor y = relu(linear(l.x, l.weight, l.bias));
      expect_grads(fused_grads(l, Tensor()), eager_grads(l, Tensor()), s.str());
      expect_grads(fused_grads(l, y), eager_grads(l, y), s.str() + " with relu");
      expect_grads(fused_grads(l, y, false, false), eager_grads(l, y), s.str() + ", dw alone");
    }
}

TEST(FusedLinear, EagerStepsTakeIt) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const LinearSize& s : kLinearSizes) {
      LinearLayer l(s, dtype);
      for (Tensor* t : {&l.x, &l.weight, &l.bias}) t->set_requires_grad();
      const Tensor y = linear(l.x, l.weight, l.bias);
      EXPECT_EQ(launches([&] { y.backward(l.dy); }), std::vector<std::string>{"linear_grad"});
      const NoGrad scope;
      expect_grads({l.x.grad(), l.weight.grad(), l.bias.grad()}, eager_grads(l, Tensor()), s.str());
    }
}

TEST(FusedLinear, GradientsOfStridedOperands) {
  for (const LinearSize s : {LinearSize{6, 40, 9}, LinearSize{50, 70, 21}}) {
    LinearLayer l(s, DType::f32);
    const Tensor y = relu(linear(l.x, l.weight, l.bias));
    const Grads expected = eager_grads(l, y), plain = eager_grads(l, Tensor());
    for (Tensor* t : {&l.x, &l.weight, &l.dy}) {
      *t = t->t().contiguous().t();
      expect_grads(fused_grads(l, y), expected, s.str());
      expect_grads(fused_grads(l, Tensor()), plain, s.str());
    }
    expect_grads(fused_grads(l, y.t().contiguous().t()), expected, s.str());
    l.dy = ones({1}).expand({s.rows, s.outputs});  // what sum() hands back
    expect_grads(fused_grads(l, Tensor()), eager_grads(l, Tensor()), s.str());
  }
}

TEST(FusedLinear, GradientsRefuseStridedResults) {
  const LinearLayer l({4, 6, 5}, DType::f32);
  const backend::LinearGradKernel kernel("linear_grad");
  Tensor dx, dw = zeros({6, 5}).t(), db;
  EXPECT_THROW(kernel(l.x.device(), l.x.dtype(), l.x, l.weight, l.dy, {}, dx, dw, db), ValueError);
}

TEST(FusedLinear, GradientsPassNaNOn) {
  LinearLayer l({5, 30, 8}, DType::f32);
  const Tensor y = relu(linear(l.x, l.weight, l.bias));
  l.dy.slice(0, 2, 3).fill_(std::numeric_limits<double>::quiet_NaN());
  expect_grads(fused_grads(l, y), eager_grads(l, y), "NaN in dy");
  y.slice(0, 2, 3).fill_(std::numeric_limits<double>::quiet_NaN());
  expect_grads(fused_grads(l, y), eager_grads(l, y), "NaN in y");
}

/// Weight, bias and states after some steps of F.
template <class F>
std::vector<Tensor> after_steps(const LinearSize& s, DType dtype, bool fused, bool want_dx,
                                bool with_bias = true) {
  manual_seed(5);
  LinearLayer l(s, dtype);
  std::vector<Tensor> states;
  for (int k = 0; k < F::kStates; ++k) states.push_back(zeros_like(l.weight));
  for (int k = 0; k < F::kStates; ++k) states.push_back(zeros_like(l.bias));
  const Tensor y = relu(linear(l.x, l.weight, l.bias));
  Tensor bias = with_bias ? l.bias : Tensor(), dx;
  for (int step = 1; step <= 3; ++step) {
    formula::StepParams p{.lr = 0.01,
                          .weight_decay = 0.1,
                          .shrink = 0.99,
                          .momentum = 0.9,
                          .keep = 1,
                          .nesterov = 1,
                          .decay = 0.95,
                          .eps = 1e-3};
    p.correction1 = 1 - std::pow(p.momentum, step);
    p.correction2 = 1 - std::pow(p.decay, step);
    if (fused) {
      const backend::LinearStepKernel kernel(backend::linear_step_name<F>());
      dx = want_dx ? zeros_like(l.x) : Tensor();
      kernel(l.x.device(), dtype, l.x, l.weight, bias, l.dy, y, dx, states, p);
    } else {
      const backend::Kernel<void(const Context&, std::span<Tensor>, std::span<const Tensor>,
                                 std::span<Tensor>, const formula::StepParams&)>
          kernel(F::kName);
      const Grads g = eager_grads(l, y);
      dx = want_dx ? g.dx : Tensor();
      std::vector<Tensor> params = {l.weight}, grads = {g.dw};
      if (with_bias) params.push_back(bias), grads.push_back(g.db);
      kernel(l.x.device(), dtype, params, grads, states, p);
    }
  }
  std::vector<Tensor> all = states;
  all.push_back(l.weight);
  all.push_back(l.bias);
  if (want_dx) all.push_back(dx);
  return all;
}

template <class F>
void check_steps() {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const LinearSize& s : kLinearSizes) {
      const auto expected = after_steps<F>(s, dtype, false, true);
      const auto actual = after_steps<F>(s, dtype, true, true);
      for (size_t i = 0; i < expected.size(); ++i)
        expect_fused(actual[i], expected[i], fmt::format("{} {}, tensor {}", F::kName, s.str(), i));
    }
}

template <class... F>
void check_all_steps(formula::List<F...>) {
  (check_steps<F>(), ...);
}

TEST(FusedLinear, StepsOfAllOptimizers) { check_all_steps(formula::OptimFormulas{}); }

TEST(FusedLinear, StepsWithoutBiasOrGradientOfX) {
  using F = formula::SgdMomentum;
  const LinearSize s{9, 100, 31};
  const auto expected = after_steps<F>(s, DType::f32, false, false, false);
  const auto actual = after_steps<F>(s, DType::f32, true, false, false);
  for (size_t i = 0; i < expected.size(); ++i)
    expect_fused(actual[i], expected[i], "tensor " + std::to_string(i));
}

TEST(FusedLinear, ThreadsChangeNoBit) {
  for (const LinearSize s :
       {LinearSize{4, 400, 120}, LinearSize{32, 300, 200}, LinearSize{128, 500, 84}}) {
    std::vector<std::vector<Tensor>> results;
    for (const int count : {1, 2, 3, 7}) {
      const Threads guard(count);
      manual_seed(3);
      const LinearLayer l(s, DType::f64);
      const Tensor y = run_linear("linear_relu", l, l.bias);
      const Grads g = fused_grads(l, y);
      std::vector<Tensor> all = after_steps<formula::Adam>(s, DType::f64, true, true);
      all.insert(all.end(), {y, g.dx, g.dw, g.db});
      results.push_back(all);
    }
    for (const auto& other : results)
      for (size_t i = 0; i < other.size(); ++i)
        EXPECT_TRUE(equal_or_undefined(other[i], results[0][i]));
  }
}

TEST(FusedLoss, LossAndGradientAreThoseOfCrossEntropy) {
  const backend::FusedLossKernel kernel("softmax_cross_entropy");
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t rows : {1, 8, 300})
      for (const int64_t classes : {1, 3, 10, 40})
        for (const double smoothing : {0.0, 0.2})
          for (const bool weighted : {false, true})
            for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
              Tensor x = (randn({rows, classes}) * 5).to(dtype);
              const Tensor weight = weighted ? rand({classes}).to(dtype) + 0.5 : Tensor();
              std::vector<int64_t> labels;
              for (int64_t i = 0; i < rows; ++i)
                labels.push_back(i % 5 == 4 ? -100 : (i * 7) % classes);
              const Tensor target = Tensor::from(labels, {rows});
              x.set_requires_grad(true);
              const Tensor expected = cross_entropy(
                  x, target,
                  {.weight = weight, .label_smoothing = smoothing, .reduction = reduction});
              expected.backward();
              Tensor loss = full({}, 7, {.dtype = dtype}),
                     dx = full(x.shape(), 7, {.dtype = dtype});
              kernel(x.device(), dtype, x.detach(), target, weight, loss, dx,
                     {.smoothing = smoothing,
                      .shape = reduction == Reduction::mean ? backend::LossShape::mean
                                                            : backend::LossShape::sum});
              expect_fused(loss, expected, "loss");
              expect_fused(dx, x.grad(), "gradient");
            }
}

TEST(FusedLoss, NaNStaysInItsRow) {
  const backend::FusedLossKernel kernel("softmax_cross_entropy");
  Tensor x = randn({3, 4});
  x.slice(0, 1, 2).fill_(std::numeric_limits<double>::quiet_NaN());
  Tensor loss = zeros({3}), dx = zeros({3, 4});
  kernel(x.device(), x.dtype(), x, Tensor::from<int64_t>({0, 1, 2}, {3}), {}, loss, dx,
         {.shape = backend::LossShape::single});
  EXPECT_TRUE(std::isfinite(loss.to_vector<float>()[0]));
  EXPECT_TRUE(std::isnan(loss.to_vector<float>()[1]));
  EXPECT_TRUE(std::isnan(dx.to_vector<float>()[5]));
  EXPECT_TRUE(std::isfinite(dx.to_vector<float>()[8]));
  EXPECT_THROW(kernel(x.device(), x.dtype(), x, Tensor::from<int64_t>({0, 4, 2}, {3}), {}, loss, dx,
                      {.shape = backend::LossShape::single}),
               IndexError);
}

}  // namespace
}  // namespace brim
