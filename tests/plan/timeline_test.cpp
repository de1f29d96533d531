// What a plan tells of itself to those who draw it.
#include <brim/brim.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace brim {
namespace {

TEST(PlanTimeline, IsEmptyWithoutAPlan) {
  const auto step = compile([](const Tensor& x) { return relu(x); });
  EXPECT_TRUE(step.timeline().launches.empty());
  EXPECT_TRUE(step.timeline().temporaries.empty());
  EXPECT_EQ(step.timeline().arena_bytes, 0);
}

TEST(PlanTimeline, TemporariesLiveInTheArena) {
  const Tensor w = randn({32, 32}).set_requires_grad(true);
  auto step = compile([&](const Tensor& x) {
    Tensor loss = mean(tanh(matmul(softmax(matmul(x, w), 1), w)));
    loss.backward();
    return loss;
  });
  const Tensor x = randn({8, 32});
  (void)step(x);
  const PlanTimeline plan = step.timeline();
  const CompileStats stats = step.stats();
  EXPECT_EQ(static_cast<int64_t>(plan.launches.size()), stats.launches);
  EXPECT_EQ(plan.arena_bytes, stats.arena_bytes);
  ASSERT_FALSE(plan.temporaries.empty());
  const auto last = static_cast<int64_t>(plan.launches.size());
  for (const PlanTimeline::Temporary& t : plan.temporaries) {
    EXPECT_GE(t.first, 0);
    EXPECT_LE(t.first, t.last);
    EXPECT_LE(t.last, last);
    EXPECT_GE(t.offset, 0);
    EXPECT_GT(t.bytes, 0);
    EXPECT_LE(t.offset + t.bytes, plan.arena_bytes);
    EXPECT_EQ(t.dtype, "f32");
    EXPECT_EQ(t.shape.front(), '(');
  }
  // Those that live at one time do not overlap.
  for (const PlanTimeline::Temporary& a : plan.temporaries)
    for (const PlanTimeline::Temporary& b : plan.temporaries) {
      if (&a == &b || a.in_place || b.in_place || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
          << a.shape << " and " << b.shape;
    }
}

}  // namespace
}  // namespace brim
