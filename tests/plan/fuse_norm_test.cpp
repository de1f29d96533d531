// batch_norm, add and relu become one launch where nobody else sees what lies between,
// and changes no result.
#include <gtest/gtest.h>

#include <functional>

#include <brim/brim.h>

namespace brim {
namespace {

/// Weights of two normalisations over four channels.
struct NormNet {
  NormNet() {
    manual_seed(2);
    for (Tensor* t : {&w1, &b1, &w2, &b2}) {
      *t = randn({4});
      t->set_requires_grad();
    }
  }
  Tensor norm(const Tensor& x, int which, bool training = true) {
    return which == 1 ? batch_norm(x, w1, b1, mean1, var1, {.training = training})
                      : batch_norm(x, w2, b2, mean2, var2, {.training = training});
  }
  Tensor w1, b1, w2, b2;
  Tensor mean1 = zeros({4}), var1 = ones({4}), mean2 = zeros({4}), var2 = ones({4});
};

/// 16 bits beside f32 weights, as Autocast gives them.
Tensor narrow(const Tensor& x) { return x.to(bf16); }

using NormBody = std::function<Tensor(NormNet&, const Tensor&)>;

/// Output, gradients of x and of all weights, and running statistics after two steps.
std::vector<Tensor> run(const NormBody& body, bool compiled, std::string* explain) {
  NormNet net;
  Tensor leaf = randn({3, 4, 5, 6}).set_requires_grad();
  const Tensor dy = randn({3, 4, 5, 6});
  const std::vector<Tensor*> leaves{&leaf, &net.w1, &net.b1, &net.w2, &net.b2};
  const std::function<Tensor(const Tensor&)> step = [&](const Tensor& up) {
    for (Tensor* t : leaves) t->zero_grad();
    const Tensor y = body(net, leaf * 1.5);
    sum(y * up).backward();
    return y.detach();
  };
  auto plan = compile(step, {.keep_gradients = true});
  std::vector<Tensor> results(1);
  for (int i = 0; i < 2; ++i) results[0] = (compiled ? plan(dy) : step(dy)).clone();
  if (compiled) *explain = plan.explain();
  for (const Tensor* t : leaves)
    if (t->grad().defined()) results.push_back(t->grad());
  for (const Tensor* t : {&net.mean1, &net.var1, &net.mean2, &net.var2}) results.push_back(*t);
  return results;
}

/// `forward`, `backward`: how many launches the pass makes.
void expect_fused_norms(const NormBody& body, int forward, int backward, double tolerance = 1e-4) {
  std::string explain;
  const auto eager = run(body, false, nullptr), compiled = run(body, true, &explain);
  ASSERT_EQ(eager.size(), compiled.size());
  for (size_t i = 0; i < eager.size(); ++i)
    EXPECT_LT(max(abs(eager[i] - compiled[i])).item(), tolerance) << "result " << i << "\n"
                                                                  << explain;
  const auto count = [&](const std::string& name) {
    int n = 0;
    for (size_t at = 0; (at = explain.find(" " + name + " ", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count("batch_norm_relu"), forward) << explain;
  EXPECT_EQ(count("batch_norm_relu_grad"), backward) << explain;
}

TEST(FuseNorm, Relu) {
  expect_fused_norms([](NormNet& n, const Tensor& x) { return relu(n.norm(x, 1)); }, 1, 1);
}

TEST(FuseNorm, ReluOfFixedStatistics) {
  expect_fused_norms([](NormNet& n, const Tensor& x) { return relu(n.norm(x, 1, false)); }, 1, 1);
}

TEST(FuseNorm, ResidualOnEitherSide) {
  expect_fused_norms([](NormNet& n, const Tensor& x) { return relu(n.norm(x, 1) + x); }, 1, 1);
  expect_fused_norms([](NormNet& n, const Tensor& x) { return relu(x + n.norm(x, 1)); }, 1, 1);
}

TEST(FuseNorm, ResidualThatIsNormalisedToo) {
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) { return relu(n.norm(x, 1) + n.norm(x * x, 2)); }, 1, 1);
}

TEST(FuseNorm, ChainOfBlocks) {
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) {
        const Tensor y = relu(n.norm(x, 1));
        return relu(n.norm(y * 0.5, 2) + y);
      },
      2, 2);
}

TEST(FuseNorm, SixteenBitsWithF32Weights) {
  for (const bool training : {true, false})
    expect_fused_norms(
        [=](NormNet& n, const Tensor& x) { return relu(n.norm(narrow(x), 1, training)).to(f32); },
        1, 1, 1e-4);
  // The sum is not rounded before the ReLU where it is fused.
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) {
        const Tensor y = narrow(x);
        return relu(n.norm(y, 1) + y).to(f32);
      },
      1, 1, 4e-2);
}

TEST(FuseNorm, NotWhereSomebodySeesWhatLiesBetween) {
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) {
        const Tensor y = n.norm(x, 1);
        return relu(y) + y;
      },
      0, 0);
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) {
        const Tensor y = n.norm(x, 1) + x;
        return relu(y) * sigmoid(y);
      },
      0, 0);
}

TEST(FuseNorm, NotAScaledOrBroadcastResidual) {
  expect_fused_norms([](NormNet& n, const Tensor& x) { return relu(add(n.norm(x, 1), x, 2)); }, 0,
                     1);
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) { return relu(n.norm(x, 1) + mean(x, {0}, true)); }, 0, 1);
}

TEST(FuseNorm, SumWithItself) {
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) {
        const Tensor y = n.norm(x, 1);
        return relu(y + y);
      },
      0, 0);
}

TEST(FuseNorm, BiasWrittenBeforeTheGradient) {
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) {
        const Tensor y = relu(n.norm(x, 1));
        const NoGrad guard;
        n.b1.detach().mul_(full({4}, -3));
        return y;
      },
      1, 1);
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) {
        const Tensor y = relu(n.norm(x, 1) + x);
        const NoGrad guard;
        n.b1.detach().mul_(full({4}, -3));
        return y;
      },
      1, 1);
  // One launch before the bias is written.
  expect_fused_norms(
      [](NormNet& n, const Tensor& x) {
        const Tensor y = n.norm(x, 1);
        {
          const NoGrad guard;
          n.b1.detach().mul_(full({4}, -3));
        }
        return relu(y);
      },
      1, 1);
}

}  // namespace
}  // namespace brim
