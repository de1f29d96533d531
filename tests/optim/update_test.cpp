// Each optimizer's update against its published formula, number by number in double.
#include <gtest/gtest.h>

#include <cmath>

#include <brim/ops/create.h>
#include <brim/optim/optim.h>

namespace brim {
namespace {

constexpr int kSteps = 6;
double gradient(int step) { return std::sin(1.7 * step) + 0.3; }

/// Runs an optimizer on one f64 number and on 37 f32 ones (a vector loop and its rest).
template <class O>
void expect_path(typename O::Options options, const std::vector<double>& path) {
  Tensor one = Tensor::from<double>({1}, {1}).set_requires_grad();
  Tensor many = ones({37}).set_requires_grad();
  O exact({one}, options), fast({many}, options);
  for (int step = 1; step <= kSteps; ++step) {
    one.set_grad(full_like(one, gradient(step)));
    many.set_grad(full_like(many, gradient(step)));
    exact.step();
    fast.step();
    const double want = path[static_cast<size_t>(step - 1)];
    EXPECT_NEAR(one.item(), want, 1e-13) << "step " << step;
    for (float v : many.to_vector<float>()) ASSERT_NEAR(v, want, 2e-6) << "step " << step;
  }
}

TEST(SGD, Plain) {
  std::vector<double> path;
  double p = 1;
  for (int t = 1; t <= kSteps; ++t) path.push_back(p -= 0.1 * (gradient(t) + 0.01 * p));
  expect_path<optim::SGD>({.lr = 0.1, .weight_decay = 0.01}, path);
}

TEST(SGD, MomentumBeginsWithTheGradient) {
  std::vector<double> path;
  double p = 1, v = 0;
  for (int t = 1; t <= kSteps; ++t) {
    v = t == 1 ? gradient(t) : 0.9 * v + (1 - 0.4) * gradient(t);
    path.push_back(p -= 0.1 * v);
  }
  expect_path<optim::SGD>({.lr = 0.1, .momentum = 0.9, .dampening = 0.4}, path);
}

TEST(SGD, Nesterov) {
  std::vector<double> path;
  double p = 1, v = 0;
  for (int t = 1; t <= kSteps; ++t) {
    const double g = gradient(t) + 0.02 * p;
    v = 0.8 * v + g;
    path.push_back(p -= 0.1 * (g + 0.8 * v));
  }
  expect_path<optim::SGD>({.lr = 0.1, .momentum = 0.8, .weight_decay = 0.02, .nesterov = true},
                          path);
}

std::vector<double> adam(double coupled, double decoupled, bool amsgrad) {
  const double lr = 0.05, b1 = 0.8, b2 = 0.9, eps = 1e-3;
  std::vector<double> path;
  double p = 1, m = 0, v = 0, most = 0;
  for (int t = 1; t <= kSteps; ++t) {
    const double g = gradient(t) + coupled * p;
    p -= lr * decoupled * p;
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    most = std::max(most, v);
    const double square = (amsgrad ? most : v) / (1 - std::pow(b2, t));
    path.push_back(p -= lr * m / (1 - std::pow(b1, t)) / (std::sqrt(square) + eps));
  }
  return path;
}

TEST(Adam, WithWeightDecay) {
  expect_path<optim::Adam>(
      {.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1},
      adam(0.1, 0, false));
}

TEST(Adam, Amsgrad) {
  expect_path<optim::Adam>({.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .amsgrad = true},
                           adam(0, 0, true));
}

TEST(AdamW, DecaysTheWeightItself) {
  expect_path<optim::AdamW>(
      {.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1},
      adam(0, 0.1, false));
  expect_path<optim::AdamW>(
      {.lr = 0.05, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1, .amsgrad = true},
      adam(0, 0.1, true));
}

TEST(RMSprop, AllForms) {
  for (bool centered : {false, true})
    for (double momentum : {0.0, 0.7}) {
      const double lr = 0.02, alpha = 0.9, eps = 1e-2, decay = 0.05;
      std::vector<double> path;
      double p = 1, square = 0, mean = 0, v = 0;
      for (int t = 1; t <= kSteps; ++t) {
        const double g = gradient(t) + decay * p;
        square = alpha * square + (1 - alpha) * g * g;
        mean = alpha * mean + (1 - alpha) * g;
        const double step = g / (std::sqrt(square - (centered ? mean * mean : 0)) + eps);
        v = momentum * v + step;
        path.push_back(p -= lr * v);
      }
      expect_path<optim::RMSprop>({.lr = lr,
                                   .alpha = alpha,
                                   .eps = eps,
                                   .weight_decay = decay,
                                   .momentum = momentum,
                                   .centered = centered},
                                  path);
    }
}

template <class O>
void expect_resume(typename O::Options options) {
  auto run = [](O& o, Tensor& p, int from, int to) {
    for (int i = from; i < to; ++i) {
      p.set_grad(full_like(p, gradient(i)));
      o.step();
    }
  };
  Tensor a = ones({37}).set_requires_grad(), b = ones({37}).set_requires_grad();
  O whole({a}, options), first({b}, options), second({b});
  run(whole, a, 0, 10);
  run(first, b, 0, 5);
  second.load_state_dict(first.state_dict());
  run(second, b, 5, 10);
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST(AllOptimizers, ResumeBitForBit) {
  expect_resume<optim::Adam>({.amsgrad = true});
  expect_resume<optim::AdamW>({.lr = 0.3});
  expect_resume<optim::RMSprop>({.momentum = 0.5, .centered = true});
}

TEST(AllOptimizers, BadOptionsAreErrors) {
  const Tensor p = ones({1}).set_requires_grad();
  EXPECT_THROW(optim::Adam({p}, {.beta1 = 1}), ValueError);
  EXPECT_THROW(optim::AdamW({p}, {.eps = -1}), ValueError);
  EXPECT_THROW(optim::AdamW({p}, {.lr = std::nan("")}), ValueError);
  EXPECT_THROW(optim::RMSprop({p}, {.alpha = -0.1}), ValueError);
}

/// Parameters that joined late have a step count of their own.
TEST(Adam, CorrectsEachParameterByItsOwnSteps) {
  Tensor a = ones({1}).set_requires_grad(), b = ones({1}).set_requires_grad();
  optim::Adam adam({a, b}, {.lr = 0.1, .eps = 0});
  for (int i = 0; i < 3; ++i) {
    a.set_grad(ones({1}));
    if (i == 2) b.set_grad(ones({1}));
    adam.step();
  }
  // With equal gradients every corrected step is lr.
  EXPECT_NEAR(a.item(), 0.7, 1e-6);
  EXPECT_NEAR(b.item(), 0.9, 1e-6);
}

#if defined(__SSE__)
TEST(SGD, MomentumOfAUnitThatStoppedLearningEndsAtZero) {
  // Denormal momentum would never reach zero and slow every later step down a hundredfold.
  Tensor p = ones({37}).set_requires_grad();
  optim::SGD sgd({p}, {.lr = 0.1, .momentum = 0.9});
  p.set_grad(full_like(p, 1e-3));
  sgd.step();
  p.set_grad(zeros_like(p));
  for (int step = 0; step < 1000; ++step) sgd.step();
  for (const auto& [name, value] : sgd.state_dict()) {
    if (value.dtype() != f32) continue;
    for (float v : value.to_vector<float>()) ASSERT_EQ(v, 0) << name;
  }
}
#endif

}  // namespace
}  // namespace brim
