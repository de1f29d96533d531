// Autocast: which op works in which dtype, gradients through the casts, and the casts that are
// kept.
#include <brim/autograd/autocast.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include <brim/brim.h>

namespace brim {
namespace {

using Unary = std::function<Tensor(const Tensor&)>;

double largest_difference(const Tensor& a, const Tensor& b) {
  return amax(abs(a.detach().to(f64) - b.detach().to(f64))).item();
}
/// The length of a - b, and of b.
double distance(const Tensor& a, const Tensor& b) { return norm(a.detach() - b.detach()).item(); }
double length(const Tensor& b) { return norm(b.detach()).item(); }

TEST(Autocast, MatrixProductsWorkInItsDtype) {
  const Tensor x = ones({2, 3}), w = ones({4, 3}), b = ones({4});
  const Tensor image = ones({1, 2, 5, 5}), kernel = ones({3, 2, 3, 3});
  for (const DType dtype : {f16, bf16}) {
    const Autocast scope(dtype);
    EXPECT_EQ(Autocast::current(), dtype);
    EXPECT_EQ(matmul(x, w.t()).dtype(), dtype);
    EXPECT_EQ(linear(x, w, b).dtype(), dtype);
    EXPECT_EQ(conv2d(image, kernel).dtype(), dtype);
    EXPECT_EQ(relu(linear(x, w)).dtype(), dtype);  // what it is given
    EXPECT_EQ(max_pool2d(conv2d(image, kernel), 2).dtype(), dtype);
  }
  EXPECT_EQ(Autocast::current(), f32);
  EXPECT_EQ(linear(x, w, b).dtype(), f32);
}

TEST(Autocast, SensitiveOpsWorkInF32) {
  const Tensor x = rand({4, 6}).to(f16) + 0.5;
  const Tensor labels = zeros({4}, {.dtype = i64});
  const Tensor image = rand({3, 4, 2, 2}).to(f16), ones4 = ones({4}), ones6 = ones({6});
  const std::vector<Unary> ops = {
      [](const Tensor& t) { return sum(t); },
      [](const Tensor& t) { return mean(t, {1}); },
      [](const Tensor& t) { return prod(t); },
      [](const Tensor& t) { return var(t); },
      [](const Tensor& t) { return stddev(t); },
      [](const Tensor& t) { return norm(t); },
      [](const Tensor& t) { return norm(t, 1); },
      [](const Tensor& t) { return cumsum(t, 0); },
      [](const Tensor& t) { return logsumexp(t); },
      [](const Tensor& t) { return softmax(t, 1); },
      [](const Tensor& t) { return log_softmax(t, 1); },
      [](const Tensor& t) { return exp(t); },
      [](const Tensor& t) { return expm1(t); },
      [](const Tensor& t) { return log(t); },
      [](const Tensor& t) { return log1p(t); },
      [](const Tensor& t) { return log2(t); },
      [](const Tensor& t) { return log10(t); },
      [](const Tensor& t) { return pow(t, 2); },
      [](const Tensor& t) { return pow(t, t); },
      [](const Tensor& t) { return reciprocal(t); },
      [](const Tensor& t) { return rsqrt(t); },
      [](const Tensor& t) { return softplus(t); },
      [&](const Tensor& t) { return cross_entropy(t, labels); },
      [](const Tensor& t) { return cross_entropy(t, t); },
      [&](const Tensor& t) { return nll_loss(t, labels); },
      [](const Tensor& t) { return mse_loss(t, t * 2); },
      [](const Tensor& t) { return mse_loss(t, t.to(f32)); },
      [](const Tensor& t) { return l1_loss(t, t); },
      [](const Tensor& t) { return smooth_l1_loss(t, t); },
      [](const Tensor& t) { return huber_loss(t, t); },
      [](const Tensor& t) { return bce_with_logits(t, t); },
      [&](const Tensor& t) { return layer_norm(t, {6}, ones6, ones6); },
      [&](const Tensor& t) { return rms_norm(t, {6}, ones6); },
      [&](const Tensor&) { return group_norm(image, 2, ones4); },
  };
  const Autocast scope(f16);
  for (size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(ops[i](x).dtype(), f32) << "op " << i;
    EXPECT_EQ(ops[i](x.to(f32)).dtype(), f32) << "op " << i;
  }
}

TEST(Autocast, BatchNormGivesWhatItTakes) {
  for (const DType dtype : {f16, bf16})
    for (const DType given : {dtype, f32}) {
      const Tensor x = rand({3, 4, 2, 2}).to(given).set_requires_grad();
      const Tensor w = ones({4}).set_requires_grad(), b = zeros({4}).set_requires_grad();
      Tensor mean = zeros({4}), var = ones({4});
      Tensor y;
      {
        const Autocast scope(dtype);
        y = batch_norm(x, w, b, mean, var, {.training = true});
        EXPECT_EQ(batch_norm(x, w, b, mean, var).dtype(), given);
      }
      EXPECT_EQ(y.dtype(), given);
      y.backward(ones({3, 4, 2, 2}, {.dtype = given}));
      EXPECT_EQ(x.grad().dtype(), given);
      EXPECT_EQ(w.grad().dtype(), f32);
      EXPECT_EQ(b.grad().dtype(), f32);
      EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(4, 12));
    }
}

TEST(Autocast, OthersTakeTheWiderDtype) {
  const Tensor low = ones({3}, {.dtype = bf16}), high = full({3}, 2.0);
  const Autocast scope(bf16);
  EXPECT_EQ((low + high).dtype(), f32);
  EXPECT_EQ((high - low).dtype(), f32);
  EXPECT_EQ((low * high).dtype(), f32);
  EXPECT_EQ((low / high).dtype(), f32);
  EXPECT_EQ(maximum(low, high).dtype(), f32);
  EXPECT_EQ(minimum(low, high).dtype(), f32);
  EXPECT_EQ(where(low < high, low, high).dtype(), f32);
  EXPECT_EQ(cat({low, high}, 0).dtype(), f32);
  EXPECT_EQ(stack({high, low}, 0).dtype(), f32);
  EXPECT_EQ((low + low).dtype(), bf16);
  EXPECT_EQ(cat({low, low}, 0).dtype(), bf16);
  EXPECT_EQ(sum((low + high)).item(), 9);
}

TEST(Autocast, LeavesF64AndIntegersAlone) {
  const Autocast scope(f16);
  const Tensor x = ones({2, 2}, {.dtype = f64});
  EXPECT_EQ(matmul(x, x).dtype(), f64);
  EXPECT_EQ(sum(x).dtype(), f64);
  EXPECT_EQ(sum(ones({2}, {.dtype = i64})).dtype(), i64);
}

TEST(Autocast, IsOfItsScopeAndThread) {
  const Tensor x = ones({2, 2});
  {
    const Autocast scope(bf16);
    {
      const Autocast off(f32);
      EXPECT_EQ(matmul(x, x).dtype(), f32);
    }
    {
      const Autocast other(f16);
      EXPECT_EQ(matmul(x, x).dtype(), f16);
    }
    EXPECT_THROW(matmul(x, ones({3})), ShapeError);
    EXPECT_EQ(matmul(x, x).dtype(), bf16);  // also after an op that threw
    std::thread([&] { EXPECT_EQ(Autocast::current(), f32); }).join();
  }
  EXPECT_EQ(Autocast::current(), f32);
  EXPECT_THROW(Autocast scope(f64), DTypeError);
  EXPECT_THROW(Autocast scope(i32), DTypeError);
  EXPECT_EQ(Autocast::current(), f32);
}

TEST(Autocast, GradientsAreThoseOfTheParametersWithinItsRounding) {
  manual_seed(5);
  nn::Sequential net;
  net.push<nn::Conv2d>({.in = 3, .out = 8, .kernel = 3});
  net.push<nn::BatchNorm2d>({.features = 8});
  net.push<nn::ReLU>();
  net.push<nn::Flatten>();
  net.push<nn::Linear>({.in = 8 * 6 * 6, .out = 5});
  const Tensor x = randn({4, 3, 8, 8}), y = randint(0, 5, {4});
  const auto gradients = [&](DType dtype, double& loss) {
    for (Tensor p : net.parameters()) p.zero_grad();
    Tensor value;
    {
      const Autocast scope(dtype);
      value = cross_entropy(net(x), y);
    }
    EXPECT_EQ(value.dtype(), f32);
    value.backward();
    loss = value.item();
    std::vector<Tensor> all;
    for (const Tensor& p : net.parameters()) all.push_back(p.grad().clone());
    return all;
  };
  double exact = 0;
  const std::vector<Tensor> want = gradients(f32, exact);
  for (const auto& [dtype, tolerance] : {std::pair(f16, 4e-3), std::pair(bf16, 3e-2)}) {
    double loss = 0;
    const std::vector<Tensor> got = gradients(dtype, loss);
    EXPECT_NEAR(loss, exact, tolerance * exact);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), f32);
      EXPECT_LE(distance(got[i], want[i]), tolerance * (0.1 + length(want[i])))
          << "parameter " << i << " in " << name(dtype);
    }
  }
}

TEST(Autocast, SeesParametersThatAreWrittenInsideIt) {
  Tensor w = ones({2, 2}).set_requires_grad();
  const Tensor x = ones({1, 2});
  const Autocast scope(bf16);
  EXPECT_EQ(sum(linear(x, w)).item(), 4);
  {
    const NoGrad guard;
    EXPECT_EQ(sum(linear(x, w)).item(), 4);
    w.fill_(3);
  }
  const Tensor y = sum(linear(x, w));  // not the cast that was made without a history
  EXPECT_EQ(y.item(), 12);
  y.backward();
  EXPECT_EQ(sum(w.grad()).item(), 4);
  sum(linear(x, w)).backward();  // the kept cast again
  EXPECT_EQ(sum(w.grad()).item(), 8);
}

TEST(Autocast, BackwardInsideOfItGivesTheSame) {
  Tensor w = ones({3, 2}).set_requires_grad();
  const Tensor x = randn({4, 2});
  {
    const Autocast scope(f16);
    sum(square(linear(x, w))).backward();
  }
  const Tensor inside = w.grad().clone();
  w.zero_grad();
  Tensor loss;
  {
    const Autocast scope(f16);
    loss = sum(square(linear(x, w)));
  }
  loss.backward();
  EXPECT_EQ(largest_difference(inside, w.grad()), 0);
}

TEST(Autocast, SecondDerivativesFlow) {
  Tensor x = full({3, 3}, 0.5).set_requires_grad();
  const Autocast scope(bf16);
  const Tensor y = sum(matmul(x, x));
  const Tensor g = autograd::grad({{y}}, {{x}}, {}, {.create_graph = true})[0];
  EXPECT_EQ(g.dtype(), f32);
  EXPECT_TRUE(autograd::grad({{sum(g)}}, {{x}})[0].defined());
}

}  // namespace
}  // namespace brim
