// Convolutions that pool what they compute, and such as end in a ReLU: which programs have them,
// and that results stay equal.
#include <gtest/gtest.h>

#include <brim/brim.h>

#include "plan/pass.h"
#include "plan/plan.h"

namespace brim::plan {
namespace {

enum class Order : uint8_t { relu_pool, pool_relu, pool };

struct ConvNet {
  Tensor weight, bias;
  Order order = Order::relu_pool;
  Pair window = 2;
  bool bias_used = true, x_grad = true;

  explicit ConvNet(int64_t channels = 3, int64_t out = 6)
      : weight(randn({out, channels, 3, 3}).set_requires_grad()),
        bias(randn({out}).set_requires_grad()) {}

  Tensor forward(const Tensor& x) const {
    Tensor y = conv2d(x, weight, bias_used ? bias : Tensor());
    if (order == Order::relu_pool) y = relu(y);
    y = max_pool2d(y, window);
    return order == Order::pool_relu ? relu(y) : y;
  }
  /// Loss and all gradients.
  std::vector<Tensor> step(const Tensor& input) const {
    const Tensor scale = full({}, 1.5).set_requires_grad(x_grad);
    const Tensor x = input * scale;
    const Tensor loss = sum(square(forward(x)));
    std::vector<Tensor> leaves{weight};
    if (bias_used) leaves.push_back(bias);
    if (x_grad) leaves.push_back(scale);
    std::vector<Tensor> results{loss};
    for (const Tensor& g : autograd::grad(std::vector<Tensor>{loss}, leaves)) results.push_back(g);
    return results;
  }
};

Program program_of_step(const Step& step, const Tensor& x) {
  return record(step, {&x, 1}, false).program;
}

int count(const Program& program, std::string_view name) {
  int n = 0;
  for (const auto& launch : program.launches) n += is(*launch, name);
  return n;
}

void expect_fused(const Program& p, int gradients) {
  EXPECT_EQ(count(p, "conv2d_relu_pool"), 1);
  EXPECT_EQ(count(p, "conv2d_relu_pool_grad"), gradients);
  for (const char* name : {"conv2d", "relu", "max_pool2d", "max_pool2d_scatter", "relu_grad",
                           "conv2d_grad_x", "conv2d_grad_weight"})
    EXPECT_EQ(count(p, name), 0) << name;
}

/// The step's results with all passes and with one alone.
void expect_equal_steps(const Step& step, const Tensor& x, const char* pass = "conv2d_relu_pool") {
  const std::vector<Tensor> want = step({&x, 1});
  for (const char* passes : {"", pass}) {
    auto compiled = compile([&](const Tensor& t) { return step({&t, 1}); }, {.passes = passes});
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto got = compiled(x);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_LT(max(abs(got[i] - want[i])).item(), 1e-4 * (1 + max(abs(want[i])).item()))
            << passes << " result " << i << "\n"
            << compiled.explain();
    }
  }
}

TEST(FuseConv, ForwardAndGradient) {
  manual_seed(1);
  for (const Order order : {Order::relu_pool, Order::pool_relu, Order::pool})
    for (const bool bias : {true, false})
      for (const bool x_grad : {true, false}) {
        ConvNet net;
        net.order = order;
        net.bias_used = bias;
        net.x_grad = x_grad;
        const Tensor x = randn({5, 3, 13, 12});
        const Step step = [&](std::span<const Tensor> in) { return net.step(in[0]); };
        Program p = program_of_step(step, x);
        EXPECT_FALSE(run_pass("conv2d_relu_pool", p).empty());
        expect_fused(p, 1);
        EXPECT_EQ(run_pass("conv2d_relu_pool", p), "");
        expect_equal_steps(step, x);
      }
}

TEST(FuseConv, ForwardAlone) {
  ConvNet net;
  const Step step = [&](std::span<const Tensor> in) {
    const NoGrad guard;
    return std::vector<Tensor>{net.forward(in[0])};
  };
  const Tensor x = randn({2, 3, 9, 9});
  Program p = program_of_step(step, x);
  EXPECT_FALSE(run_pass("conv2d_relu_pool", p).empty());
  expect_fused(p, 0);
  expect_equal_steps(step, x);
}

TEST(FuseConv, OneAfterTheOther) {
  manual_seed(2);
  ConvNet first, second(6, 16);
  const Step step = [&](std::span<const Tensor> in) {
    const Tensor loss = sum(second.forward(first.forward(in[0])));
    std::vector<Tensor> results{loss};
    const std::vector<Tensor> leaves{first.weight, first.bias, second.weight, second.bias};
    for (const Tensor& g : autograd::grad(std::vector<Tensor>{loss}, leaves)) results.push_back(g);
    return results;
  };
  const Tensor x = randn({3, 3, 20, 20});
  Program p = program_of_step(step, x);
  EXPECT_FALSE(run_pass("conv2d_relu_pool", p).empty());
  EXPECT_EQ(count(p, "conv2d_relu_pool"), 2);
  EXPECT_EQ(count(p, "conv2d_relu_pool_grad"), 2);
  expect_equal_steps(step, x);
}

TEST(FuseConv, LeavesAloneWhatOthersSee) {
  manual_seed(3);
  ConvNet net;
  const std::vector<std::function<Tensor(const Tensor&)>> bodies{
      [&](const Tensor& x) {  // the convolution's result is used twice
        const Tensor y = conv2d(x, net.weight, net.bias);
        return sum(max_pool2d(relu(y), 2)) + sum(y);
      },
      [&](const Tensor& x) {  // so is relu's
        const Tensor y = relu(conv2d(x, net.weight, net.bias));
        return sum(max_pool2d(y, 2)) + sum(y);
      },
      [&](const Tensor& x) {  // no pool
        return sum(relu(conv2d(x, net.weight, net.bias)));
      },
      [&](const Tensor& x) {  // another function between
        return sum(max_pool2d(tanh(conv2d(x, net.weight, net.bias)), 2));
      },
  };
  for (const auto& body : bodies) {
    const Step step = [&](std::span<const Tensor> in) {
      const Tensor loss = body(in[0]);
      const std::vector<Tensor> leaves{net.weight, net.bias};
      std::vector<Tensor> results{loss};
      for (const Tensor& g : autograd::grad(std::vector<Tensor>{loss}, leaves))
        results.push_back(g);
      return results;
    };
    const Tensor x = randn({2, 3, 10, 10});
    Program p = program_of_step(step, x);
    EXPECT_EQ(run_pass("conv2d_relu_pool", p), "");
    expect_equal_steps(step, x);
  }
}

TEST(FuseConv, TrainsLikeTheEagerStep) {
  const auto make = [] {
    manual_seed(4);
    auto net = std::make_unique<nn::Sequential>();
    net->add<nn::Conv2d>("conv", {.in = 3, .out = 6, .kernel = 5});
    net->add<nn::ReLU>("relu");
    net->add<nn::MaxPool2d>("pool", {.kernel = 2});
    net->add<nn::Flatten>("flatten");
    net->add<nn::Linear>("fc", {.in = 96, .out = 4});
    return net;
  };
  auto eager = make(), planned = make();
  optim::SGD a(eager->named_parameters(), {.lr = 0.01, .momentum = 0.9});
  optim::SGD b(planned->named_parameters(), {.lr = 0.01, .momentum = 0.9});
  const auto train = [](nn::Sequential& net, optim::SGD& optimizer, const Tensor& x,
                        const Tensor& y) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train(*planned, b, x, y); });
  for (int i = 0; i < 10; ++i) {
    const Tensor x = randn({4, 3, 12, 12}), y = randint(0, 4, {4}, {.dtype = i64});
    EXPECT_NEAR(train(*eager, a, x, y).item(), step(x, y).item(), 1e-4) << i;
  }
  EXPECT_NE(step.explain().find("conv2d_relu_pool_grad"), std::string::npos);
}

// --- convolution and ReLU alone

/// Loss and gradients of x and the leaves, for a body that ends in a convolution's result.
Step loss_step(const std::function<Tensor(const Tensor&)>& body,
               const std::vector<Tensor>& leaves) {
  return [=](std::span<const Tensor> in) {
    const Tensor scale = full({}, 1.5).set_requires_grad();
    std::vector<Tensor> all = leaves;
    all.push_back(scale);
    std::vector<Tensor> results{sum(square(body(in[0] * scale)))};
    for (const Tensor& g : autograd::grad(std::vector<Tensor>{results[0]}, all))
      results.push_back(g);
    return results;
  };
}

TEST(FuseConvRelu, ForwardAndGradient) {
  manual_seed(5);
  const ConvNet net(3, 6);
  for (const bool bias : {true, false})
    for (const bool nhwc : {false, true}) {
      std::vector<Tensor> leaves{net.weight};
      if (bias) leaves.push_back(net.bias);
      const Step step = loss_step(
          [&](const Tensor& x) {
            const Tensor from = nhwc ? x.to(MemoryFormat::nhwc) : x;
            return relu(conv2d(from, net.weight, bias ? net.bias : Tensor(), {.stride = 2}));
          },
          leaves);
      const Tensor x = randn({4, 3, 11, 10});
      Program p = program_of_step(step, x);
      EXPECT_FALSE(run_pass("conv2d_relu", p).empty());
      EXPECT_EQ(count(p, "conv2d_relu"), 1);
      EXPECT_EQ(count(p, "conv2d") + count(p, "relu"), 0);
      EXPECT_EQ(count(p, "relu_grad"), 1);  // needs the fused launch's result alone
      EXPECT_EQ(run_pass("conv2d_relu", p), "");
      expect_equal_steps(step, x, "conv2d_relu");
    }
}

TEST(FuseConvRelu, LeavesAloneWhatOthersSee) {
  manual_seed(7);
  const ConvNet net(3, 6);
  const Tensor scale = randn({6}), shift = randn({6});
  const std::vector<std::function<Tensor(const Tensor&)>> bodies{
      [&](const Tensor& x) {  // the convolution's result is used twice
        const Tensor y = conv2d(x, net.weight, net.bias);
        return relu(y) * y;
      },
      [&](const Tensor& x) {  // a normalisation between, which batch_norm_relu fuses
        return relu(
            batch_norm(conv2d(x, net.weight, net.bias), scale, shift, {}, {}, {.training = true}));
      },
      [&](const Tensor& x) {  // another function
        return tanh(conv2d(x, net.weight, net.bias));
      },
      [&](const Tensor& x) {  // a view of another shape
        return relu(conv2d(x, net.weight, net.bias).transpose(2, 3));
      }};
  for (const auto& body : bodies) {
    const Step step = loss_step(body, {net.weight, net.bias});
    const Tensor x = randn({2, 3, 10, 9});
    Program p = program_of_step(step, x);
    EXPECT_EQ(run_pass("conv2d_relu", p), "");
    expect_equal_steps(step, x, "conv2d_relu");
  }
}

// Where pooling follows, the kernel that pools has the convolution; a second one keeps its ReLU.
TEST(FuseConvRelu, PoolingComesFirst) {
  manual_seed(8);
  const ConvNet first, second(6, 8);
  const Step step = loss_step(
      [&](const Tensor& x) {
        const Tensor y = max_pool2d(relu(conv2d(x, first.weight, first.bias)), 2);
        return relu(conv2d(y, second.weight, second.bias));
      },
      {first.weight, second.weight});
  const Tensor x = randn({2, 3, 14, 14});
  Program p = program_of_step(step, x);
  (void)run_pass(kRewrites, p);
  EXPECT_EQ(count(p, "conv2d_relu_pool"), 1);
  EXPECT_EQ(count(p, "conv2d_relu_pool_grad"), 1);
  EXPECT_EQ(count(p, "conv2d_relu"), 1);
  expect_equal_steps(step, x, "rewrites");
}

}  // namespace
}  // namespace brim::plan
