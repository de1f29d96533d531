// Hooks: on leaves, on nodes, while they come and go, and the gradients that tensors keep.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include <brim/autograd/autograd.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/reduce.h>
#include <brim/ops/unary.h>

#include "autograd/leaf.h"

namespace brim {
namespace {

using tests::leaf;

TEST(Hooks, MayAddAndRemoveHooks) {
  for (bool of_leaf : {true, false}) {
    Tensor x = leaf({1}), y = of_leaf ? x : x * 1;
    // On the heap and used last: a function that was moved or destroyed meanwhile shows.
    const std::string text(100, 'x');
    int calls = 0, later = 0, id = 0;
    id = y.register_hook([&calls, &later, &id, &y, text](const Tensor&) {
      y.remove_hook(id);
      for (int i = 0; i < 20; ++i)
        y.register_hook([&later](const Tensor&) {
          ++later;
          return Tensor();
        });
      calls += text == std::string(100, 'x');
      return Tensor();
    });
    sum(y * 2).backward({}, {.retain_graph = true});
    EXPECT_EQ(calls, 1) << of_leaf;
    EXPECT_EQ(later, 0) << of_leaf;
    sum(y * 2).backward();
    EXPECT_EQ(calls, 1) << of_leaf;
    EXPECT_EQ(later, 20) << of_leaf;
  }
}

TEST(Hooks, MayDropTheTensorThatKeepsItsGradient) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  y.register_hook([&y](const Tensor&) {
    y = Tensor();
    return Tensor();
  });
  y.retain_grad();
  int calls = 0;
  y.register_hook([&calls](const Tensor&) {
    ++calls;
    return Tensor();
  });
  sum(y * 3).backward();
  EXPECT_FALSE(y.defined());
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 6}));
}

TEST(Hooks, RetainedGradientIsWhatHooksMadeOfIt) {
  Tensor x = leaf({1});
  Tensor y = x * 2;
  y.retain_grad();
  y.register_hook([](const Tensor& g) { return g * 10; });
  y.backward();
  EXPECT_EQ(y.grad().item(), 10);
  EXPECT_EQ(x.grad().item(), 20);
}

TEST(Hooks, GradAppliesThoseOfItsInputsOnly) {
  Tensor x = leaf({1}), other = leaf({5});
  int others = 0;
  x.register_hook([](const Tensor& g) { return g * 2; });
  other.register_hook([&others](const Tensor&) {
    ++others;
    return Tensor();
  });
  const Tensor y = x * other;
  EXPECT_EQ(autograd::grad({&y, 1}, {&x, 1})[0].item(), 10);
  EXPECT_EQ(others, 0);
  EXPECT_FALSE(x.grad().defined());
}

TEST(Hooks, TensorsOfStaticLifetimeMayHaveAHistory) {
  const auto leave = [] {
    static Tensor hidden;
    const Tensor w = leaf({1, 2});
    hidden = w;
    for (int i = 0; i < 50; ++i) hidden = tanh(hidden * w + w);
    std::exit(0);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace brim
