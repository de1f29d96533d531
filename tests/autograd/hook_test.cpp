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

TEST(Hooks, PostAccumulateHooksComeOnceTheGradIsThere) {
  Tensor w = leaf({3}), early = leaf({2});
  std::vector<std::string> order;
  early.register_hook([&order](const Tensor&) {
    order.emplace_back("early's gradient");
    return Tensor();
  });
  const Tensor y = early * 2 * w;
  const int id = w.register_post_accumulate_grad_hook([&](Tensor& leaf) {
    EXPECT_TRUE(leaf.is_same(w));
    order.push_back("w's grad is " + std::to_string(leaf.grad().item<int>()));
    leaf.zero_grad();  // as an optimizer that steps in the backward pass does
  });
  y.backward({}, {.retain_graph = true});
  EXPECT_EQ(order, (std::vector<std::string>{"w's grad is 4", "early's gradient"}));
  EXPECT_FALSE(w.grad().defined());
  (void)autograd::grad({&y, 1}, {&w, 1}, {}, {.retain_graph = true});  // accumulates nothing
  EXPECT_EQ(order.size(), 2u);
  w.remove_hook(id);
  y.backward();
  EXPECT_EQ(order.size(), 3u);
  EXPECT_EQ(w.grad().item(), 4);
}

TEST(Hooks, PostAccumulateHooksAreOfLeaves) {
  const Tensor x = leaf({1});
  Tensor y = x * 2, plain = ones({1});
  EXPECT_THROW(y.register_post_accumulate_grad_hook([](Tensor&) {}), AutogradError);
  EXPECT_THROW(plain.register_post_accumulate_grad_hook([](Tensor&) {}), AutogradError);
  Tensor w = leaf({1});
  w.register_post_accumulate_grad_hook([](Tensor&) { throw std::runtime_error("no"); });
  EXPECT_THROW((w * 2).backward(), std::runtime_error);
  EXPECT_EQ(w.grad().item(), 2);
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
