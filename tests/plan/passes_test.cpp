// Each pass does what it says, and changes no result.
#include <gtest/gtest.h>

#include <cmath>

#include <brim/brim.h>

#include "backend/fused/chain.h"
#include "plan/plan.h"

namespace brim::plan {
namespace {

using Body = std::function<Tensor(const Tensor&)>;

/// Plans of `body` with all passes and with none give what it gives.
void expect_equal(const Body& body, const Tensor& x, double tolerance = 0) {
  const Tensor want = body(x);
  for (const char* passes : {"", "memory"}) {
    auto step = compile(Body(body), {.passes = passes});
    for (int i = 0; i < 3; ++i) {
      const Tensor got = step(x);
      ASSERT_EQ(got.shape(), want.shape());
      EXPECT_LE(max(abs(got - want)).item(), tolerance) << passes << "\n" << step.explain();
    }
  }
}

Program program_of(const Body& body, const Tensor& x) {
  return record([&](std::span<const Tensor> in) { return std::vector<Tensor>{body(in[0])}; },
                {&x, 1}, false)
      .program;
}

std::vector<std::string> names(const Program& program) {
  std::vector<std::string> list;
  for (const auto& launch : program.launches) list.emplace_back(launch->name());
  return list;
}

TEST(DeadCode, LeavesOutWhatNobodyReads) {
  const Body body = [](const Tensor& x) {
    (void)exp(sin(x));
    return x + 1;
  };
  Program p = program_of(body, ones({4}));
  EXPECT_EQ(p.launches.size(), 3u);
  EXPECT_FALSE(dead_code(p).empty());
  EXPECT_EQ(p.launches.size(), 1u);
  EXPECT_EQ(dead_code(p), "");
  expect_equal(body, rand({4}));
}

TEST(DeadCode, KeepsWhatOthersSee) {
  Tensor log = zeros({4});
  Program p = program_of(
      [&](const Tensor& x) {
        log.add_(x);
        return x + 1;
      },
      ones({4}));
  EXPECT_EQ(dead_code(p), "");
}

TEST(CommonSubexpressions, ComputesOnce) {
  const Body body = [](const Tensor& x) { return exp(x) * (exp(x) + sin(exp(x))); };
  Program p = program_of(body, ones({4}));
  EXPECT_EQ(p.launches.size(), 6u);
  EXPECT_FALSE(common_subexpressions(p).empty());
  EXPECT_EQ(names(p), (std::vector<std::string>{"exp", "sin", "add", "mul"}));
  expect_equal(body, rand({4}));
}

TEST(CommonSubexpressions, TellsZeroFromMinusZero) {
  const Body body = [](const Tensor& x) { return 1 / (x * 0.0) + 1 / (x * -0.0); };
  auto step = compile(Body(body), {.passes = "common_subexpressions"});
  EXPECT_TRUE(std::isnan(body(ones({1})).item()));  // infinity - infinity
  EXPECT_TRUE(std::isnan(step(ones({1})).item()));
}

TEST(CommonSubexpressions, MindsWritesBetween) {
  Tensor w = ones({4});
  Program p = program_of(
      [&](const Tensor& x) {
        const Tensor a = exp(w);
        w.add_(x);
        return a + exp(w);
      },
      ones({4}));
  EXPECT_EQ(common_subexpressions(p), "");
  Program draws = program_of(
      [&](const Tensor& x) { return dropout(x, 0.5, true) + dropout(x, 0.5, true); }, ones({4}));
  EXPECT_EQ(common_subexpressions(draws), "");
}

TEST(FuseChains, OneChainForARun) {
  const Tensor b = rand({3, 1000}), half = full({}, 0.5);
  const Body body = [&](const Tensor& x) { return sigmoid(relu(x * b + half)) * x; };
  Program p = program_of(body, rand({3, 1000}));
  EXPECT_FALSE(fuse_chains(p).empty());
  EXPECT_EQ(names(p), std::vector<std::string>{"chain"});
  EXPECT_EQ(backend::names_of_links(*p.launches[0]), "mul, add, relu, sigmoid, mul");
  for (const int64_t n : {1, 7, 1023, 1024, 1025, 200000}) {
    const Tensor c = randn({n}), s = full({}, 0.5);
    expect_equal([&](const Tensor& x) { return sigmoid(relu(x * c + s)) * x; }, randn({n}));
  }
}

TEST(FuseChains, StepsAroundWhatIsNotDenseOrAlike) {
  const Tensor row = rand({1, 5});
  for (const Body& body : std::vector<Body>{
           [&](const Tensor& x) { return exp(x * row) + x; },
           [](const Tensor& x) { return exp(x.t()) * sin(x.t()); },
           [](const Tensor& x) { return exp(sum(sin(x) * x)) + cos(x); },
           [](const Tensor& x) { return (exp(x) > 1).to(f32) * x; },
           [](const Tensor& x) {
             Tensor y = exp(x);
             y.add_(x).mul_(y);
             return y + sin(y);
           },
           [](const Tensor& x) { return x.slice(0, 0, 2) * x[0][0] + exp(x.slice(0, 2, 4)); },
       })
    expect_equal(body, rand({4, 5}), 1e-6);
}

TEST(FuseChains, OtherViewsOfWhatItWrites) {
  const Tensor v = rand({300000}), c = rand({1});
  expect_equal(
      [&](const Tensor& in) {
        Tensor x = in.clone();
        const Tensor y = v * x.select(0, 0);
        x.add_(y);
        return x;
      },
      rand({300000}), 1e-6);
  expect_equal([&](const Tensor& x) { return (x * 2).reshape({}) + c; }, rand({1}), 1e-6);
  expect_equal(
      [](const Tensor& x) { return logical_or(logical_and(x > 0.5, x < 0.9), x > 0.2).to(f32); },
      rand({100}));
}

TEST(FuseChains, WritesOfOthersTensors) {
  Tensor total = zeros({64}), reference = zeros({64});
  auto step = compile([&](const Tensor& x) {
    const Tensor y = exp(x);
    total.add_(y);
    return total * y;
  });
  for (int i = 0; i < 3; ++i) {
    const Tensor x = rand({64}), y = exp(x);
    reference.add_(y);
    EXPECT_EQ(max(abs(step(x) - reference * y)).item(), 0);
  }
  EXPECT_EQ(max(abs(total - reference)).item(), 0);
}

TEST(Memory, BlocksThatLiveTogetherNeverOverlap) {
  Tensor w = rand({40, 40}).set_requires_grad();
  Program p = program_of(
      [&](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 6; ++i) y = tanh(matmul(y, w)) + y;
        return sum(y);
      },
      rand({30, 40}));
  const MemoryPlan plan = plan_memory(p, true);
  for (const Block& a : plan.blocks)
    for (const Block& b : plan.blocks)
      if (&a != &b && a.in_place_of < 0 && b.in_place_of < 0 && a.first <= b.last &&
          b.first <= a.last) {
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
      }
  EXPECT_GE(plan.bytes, plan.largest);
  EXPECT_LT(plan.bytes, plan.separate);
  EXPECT_EQ(plan_memory(p, false).bytes, plan.separate);
}

TEST(Memory, ElementwiseResultsTakeThePlaceOfWhatEnds) {
  const Body chain = [](const Tensor& x) { return sum(tanh(sin(exp(x)))); };
  Program p = program_of(chain, rand({100}));
  const MemoryPlan plan = plan_memory(p, true);
  EXPECT_EQ(plan.in_place, 2);
  EXPECT_LE(plan.bytes, 512u);
  // Another view of the input is read after its first elements were written.
  expect_equal(
      [](const Tensor& x) {
        const Tensor h = matmul(x, x);
        return sum(h + h.t(), {0}) + sum(h * h.select(0, 0).select(0, 3));
      },
      rand({64, 64}), 1e-1);
  const Body kept = [](const Tensor& x) {
    const Tensor a = exp(x), b = sin(a);  // a is used later, b ends with the product
    return sum(b * a.t());
  };
  expect_equal(kept, rand({20, 20}), 1e-6);
  expect_equal([](const Tensor& x) { return sum(exp(x) * exp(x).t()); }, rand({20, 20}), 1e-6);
}

TEST(PassSelection, TakesAllSomeOrAllButSome) {
  EXPECT_TRUE(PassSelection("").contains("dead_code"));
  EXPECT_EQ(PassSelection("all"), PassSelection(""));
  EXPECT_THROW(PassSelection("all,memory"), ValueError);
  EXPECT_THROW(PassSelection("-all"), ValueError);
  EXPECT_FALSE(PassSelection("-dead_code").contains("dead_code"));
  EXPECT_TRUE(PassSelection("-dead_code,-memory").contains("fuse_chains"));
  EXPECT_FALSE(PassSelection("memory").contains("dead_code"));
  EXPECT_THROW(PassSelection("-dead_cod"), ValueError);
  const char* const lossy = "round_activations";  // none of all of them
  for (const char* without : {"", "all", "-dead_code", "exact", "dead_code", "rewrites"})
    EXPECT_FALSE(PassSelection(without).contains(lossy)) << without;
  for (const char* with :
       {"+round_activations", "all,+round_activations", "-dead_code,+round_activations",
        "+round_activations,-dead_code", "exact,round_activations"})
    EXPECT_TRUE(PassSelection(with).contains(lossy)) << with;
  EXPECT_TRUE(PassSelection("+round_activations").contains("layout"));
  EXPECT_FALSE(PassSelection("+round_activations,-layout").contains("layout"));
  EXPECT_FALSE(PassSelection("exact,+round_activations").contains("layout"));
  EXPECT_FALSE(PassSelection("") == PassSelection("+round_activations"));
  EXPECT_THROW(PassSelection("+round_activation"), ValueError);
  for (const char* nothing : {"+", "+layout", "+exact", "+all", "exact,+rewrites", "all,layout"})
    EXPECT_THROW(PassSelection{nothing}, ValueError) << nothing;
  EXPECT_TRUE(PassSelection("-layout,-memory") == PassSelection("-memory,-layout"));
  EXPECT_FALSE(PassSelection("") == PassSelection("-memory"));
  EXPECT_FALSE(PassSelection("layout") == PassSelection("-layout"));
}

}  // namespace
}  // namespace brim::plan
