// LSTM and GRU: names of their parameters, states, directions, errors. Their numbers are compared
// with PyTorch's in tests/golden.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <brim/autograd/autocast.h>
#include <brim/autograd/autograd.h>
#include <brim/nn/nn.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/reduce.h>
#include <brim/ops/shape.h>
#include <brim/ops/unary.h>
#include <brim/optim/adam.h>
#include <brim/plan/compile.h>

#include "message_of.h"
#include "threads.h"

namespace brim {
namespace {

using tests::message_of;

void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_LT(max(abs(a.detach() - b.detach())).item(), 1e-6);
}

TEST(Recurrent, ParametersAreNamedAsPyTorchs) {
  const nn::LSTM lstm({.in = 3, .hidden = 4, .layers = 2, .bidirectional = true});
  std::vector<std::pair<std::string, Shape>> got;
  for (const auto& [name, p] : lstm.named_parameters()) got.emplace_back(name, p.shape());
  const std::vector<std::pair<std::string, Shape>> want = {{"weight_ih_l0", {16, 3}},
                                                           {"weight_hh_l0", {16, 4}},
                                                           {"bias_ih_l0", {16}},
                                                           {"bias_hh_l0", {16}},
                                                           {"weight_ih_l0_reverse", {16, 3}},
                                                           {"weight_hh_l0_reverse", {16, 4}},
                                                           {"bias_ih_l0_reverse", {16}},
                                                           {"bias_hh_l0_reverse", {16}},
                                                           {"weight_ih_l1", {16, 8}},
                                                           {"weight_hh_l1", {16, 4}},
                                                           {"bias_ih_l1", {16}},
                                                           {"bias_hh_l1", {16}},
                                                           {"weight_ih_l1_reverse", {16, 8}},
                                                           {"weight_hh_l1_reverse", {16, 4}},
                                                           {"bias_ih_l1_reverse", {16}},
                                                           {"bias_hh_l1_reverse", {16}}};
  EXPECT_EQ(got, want);
  EXPECT_EQ(lstm.str(), "LSTM(in=3, hidden=4, layers=2, bidirectional)");
  const nn::GRU gru({.in = 3, .hidden = 25, .bias = false, .batch_first = true});
  EXPECT_EQ(gru.parameters().size(), 2u);
  EXPECT_EQ(gru.parameters()[0].shape(), (Shape{75, 3}));
  EXPECT_LE(max(abs(gru.parameters()[0].detach())).item(), 0.2);
  EXPECT_GT(max(abs(gru.parameters()[0].detach())).item(), 0.15);
  EXPECT_EQ(gru.str(), "GRU(in=3, hidden=25, bias=false, batch_first)");
}

template <class M>
class RecurrentOf : public testing::Test {};
using Kinds = testing::Types<nn::LSTM, nn::GRU>;
TYPED_TEST_SUITE(RecurrentOf, Kinds);

TYPED_TEST(RecurrentOf, BatchFirstOnlyMovesAxes) {
  manual_seed(1);
  TypeParam a({.in = 3, .hidden = 4, .layers = 2});
  TypeParam b({.in = 3, .hidden = 4, .layers = 2, .batch_first = true});
  b.load_state_dict(a.state_dict());
  const Tensor x = randn({5, 2, 3});
  expect_close(b(x.transpose(0, 1)).transpose(0, 1), a(x));
}

TYPED_TEST(RecurrentOf, GoesOnFromItsState) {
  TypeParam net({.in = 3, .hidden = 4, .layers = 2});
  const Tensor x = randn({6, 2, 3});
  const auto whole = net(x, {});
  const auto head = net(x.slice(0, 0, 2), {});
  if constexpr (std::is_same_v<TypeParam, nn::LSTM>) {
    const auto tail = net(x.slice(0, 2, 6), head.state);
    expect_close(cat({head.y, tail.y}), whole.y);
    expect_close(tail.state.h, whole.state.h);
    expect_close(tail.state.c, whole.state.c);
    expect_close(whole.y[-1], whole.state.h[1]);
  } else {
    const auto tail = net(x.slice(0, 2, 6), head.h);
    expect_close(cat({head.y, tail.y}), whole.y);
    expect_close(tail.h, whole.h);
    expect_close(whole.y[-1], whole.h[1]);
  }
}

TYPED_TEST(RecurrentOf, TheWayBackIsTheReversedSequence) {
  TypeParam both({.in = 3, .hidden = 4, .bidirectional = true});
  TypeParam forth({.in = 3, .hidden = 4}), back({.in = 3, .hidden = 4});
  const StateDict state = both.state_dict();
  StateDict first, second;
  for (const auto& [name, value] : state)
    if (name.ends_with("_reverse"))
      second[name.substr(0, name.size() - 8)] = value;
    else
      first[name] = value;
  forth.load_state_dict(first);
  back.load_state_dict(second);
  const Tensor x = randn({5, 2, 3});
  expect_close(both(x), cat({forth(x), flip(back(flip(x, {0})), {0})}, 2));
}

TYPED_TEST(RecurrentOf, GradientsAreThoseOfDifferences) {
  TypeParam net({.in = 2, .hidden = 3, .layers = 2, .bidirectional = true, .dtype = f64});
  std::vector<Tensor> inputs = {randn({3, 2, 2}, {.dtype = f64}).set_requires_grad()};
  for (const Tensor& p : net.parameters()) inputs.push_back(p);
  autograd::gradcheck([&](const std::vector<Tensor>& in) { return std::vector{net(in[0])}; },
                      inputs);
}

TYPED_TEST(RecurrentOf, DropoutIsBetweenLayersInTraining) {
  TypeParam net({.in = 3, .hidden = 8, .layers = 2, .dropout = 0.5});
  const Tensor x = randn({4, 2, 3});
  EXPECT_NE(net(x).template to_vector<float>(), net(x).template to_vector<float>());
  net.eval();
  EXPECT_EQ(net(x).template to_vector<float>(), net(x).template to_vector<float>());
  TypeParam one({.in = 3, .hidden = 8, .dropout = 0.5});
  EXPECT_EQ(one(x).template to_vector<float>(), one(x).template to_vector<float>());
}

TYPED_TEST(RecurrentOf, CompiledStepsLearnAsEagerOnes) {
  const Tensor x = randn({4, 3, 2}), y = randn({4, 3, 5});
  const auto train = [&](bool compiled) {
    manual_seed(3);
    TypeParam net({.in = 2, .hidden = 5});
    optim::Adam optimizer(net.named_parameters(), {.lr = 0.02});
    const auto body = [&](const Tensor& a, const Tensor& b) {
      optimizer.zero_grad();
      const Tensor loss = mse_loss(net(a), b);
      loss.backward();
      optimizer.step();
      return loss;
    };
    auto step = compile(body);
    std::vector<double> losses;
    for (int i = 0; i < 30; ++i) losses.push_back((compiled ? step(x, y) : body(x, y)).item());
    return losses;
  };
  const std::vector<double> eager = train(false), compiled = train(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(compiled[i], eager[i], 1e-4) << i;
  EXPECT_LT(eager.back(), eager.front());
}

TYPED_TEST(RecurrentOf, ErrorsSayWhatDoesNotFit) {
  TypeParam net({.in = 3, .hidden = 4});
  const std::string kind = net.kind();
  EXPECT_EQ(message_of([&] {
              net(zeros({2, 3}));
            }),
            "[" + kind + "] expects x (T, N, in) with in = 3, got (2, 3)");
  EXPECT_EQ(message_of([&] {
              net(zeros({0, 2, 3}));
            }),
            "[" + kind + "] a sequence of shape (0, 2, 3) has no steps");
  EXPECT_THROW(TypeParam({.in = 3}), ValueError);
  EXPECT_THROW(TypeParam({.in = 3, .hidden = 4, .layers = 0}), ValueError);
  EXPECT_THROW(TypeParam({.in = 3, .hidden = 4, .dropout = 2}), ValueError);
  EXPECT_EQ(net(zeros({2, 0, 3})).shape(), (Shape{2, 0, 4}));
}

TYPED_TEST(RecurrentOf, ThreadsChangeNoBit) {
  TypeParam net({.in = 8, .hidden = 64});
  const auto values = [&](const Tensor& x, int count) {
    const tests::Threads threads(count);
    net.zero_grad();
    const Tensor y = net(x);
    sum(square(y)).backward();
    std::vector<std::vector<float>> all{y.template to_vector<float>()};
    for (const Tensor& p : net.parameters()) all.push_back(p.grad().template to_vector<float>());
    return all;
  };
  for (const int64_t batch : {2, 7, 13, 32}) {
    const Tensor x = randn({6, batch, 8});
    const auto one = values(x, 1);
    for (const int count : {2, 3, 4}) EXPECT_EQ(values(x, count), one) << batch << ", " << count;
  }
}

TEST(Recurrent, StatesMustFit) {
  nn::LSTM lstm({.in = 3, .hidden = 4});
  EXPECT_EQ(message_of([&] {
              lstm(zeros({2, 5, 3}), {.h = zeros({1, 2, 4}), .c = {}});
            }),
            "[LSTM] a state of shape (1, 2, 4) for x (2, 5, 3); expected (1, 5, 4)");
  nn::GRU gru({.in = 3, .hidden = 4});
  EXPECT_THROW(gru(zeros({2, 5, 3}), zeros({1, 5, 3})), ShapeError);
}

TEST(Recurrent, RunsUnderAutocast) {
  nn::LSTM lstm({.in = 3, .hidden = 4});
  const Tensor x = randn({3, 2, 3});
  const Tensor want = lstm(x);
  const Autocast scope(bf16);
  const Tensor got = lstm(x);
  EXPECT_LT(max(abs(got.detach().to(f32) - want.detach())).item(), 0.05);
}

}  // namespace
}  // namespace brim
