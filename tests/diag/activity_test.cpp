// What others see of a measured thread's spans.
#include <brim/diag/account.h>
#include <brim/diag/activity.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "diag/span.h"

namespace brim::diag {
namespace {

using Names = std::vector<std::string>;

TEST(Activity, ShowsTheOpenSpans) {
  const Accountant accountant;
  const std::shared_ptr<const Activity> activity = accountant.activity();
  EXPECT_EQ(activity->read().spans, Names{});
  EXPECT_EQ(activity->read().cause, Cause::user);
  EXPECT_EQ(activity->read().seconds, 0);
  {
    const Span outer("step", Cause::dispatch);
    {
      const Span inner("loader", Cause::input);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const Doing doing = activity->read();
      EXPECT_EQ(doing.spans, (Names{"step", "loader"}));
      EXPECT_EQ(doing.cause, Cause::input);
      EXPECT_GE(doing.seconds, 2e-3);
    }
    EXPECT_EQ(activity->read().spans, Names{"step"});
    EXPECT_EQ(activity->read().cause, Cause::dispatch);
  }
  EXPECT_EQ(activity->read().spans, Names{});
}

TEST(Activity, TellsTheScopesCause) {
  const Accountant accountant;
  const Scope scope("evaluate", Cause::evaluation);
  const Span span("matmul", Cause::compute);
  EXPECT_EQ(accountant.activity()->read().cause, Cause::evaluation);
}

TEST(Activity, DeepSpansAreCounted) {
  const Accountant accountant;
  std::vector<std::unique_ptr<Span>> spans;
  for (uint32_t i = 0; i < Activity::kDepth + 5; ++i)
    spans.push_back(std::make_unique<Span>("s", Cause::dispatch));
  EXPECT_EQ(accountant.activity()->read().spans.size(), Activity::kDepth);
  while (spans.size() > 2) spans.pop_back();
  EXPECT_EQ(accountant.activity()->read().spans.size(), 2U);
  while (!spans.empty()) spans.pop_back();
}

TEST(Activity, OutlivesItsAccountant) {
  std::shared_ptr<const Activity> activity;
  {
    const Accountant accountant;
    activity = accountant.activity();
    const Span span("a", Cause::dispatch);
  }
  EXPECT_EQ(activity->read().spans, Names{});
}

TEST(Activity, AnyThreadMayLook) {
  const Accountant accountant;
  std::atomic<bool> done = false;
  std::thread looker([&, activity = accountant.activity()] {
    while (!done)
      for (const std::string& name : activity->read().spans)
        ASSERT_TRUE(name == "a" || name == "b") << name;
  });
  for (int i = 0; i < 20000; ++i) {
    const Span outer("a", Cause::dispatch);
    const Span inner("b", Cause::compute);
  }
  done = true;
  looker.join();
}

}  // namespace
}  // namespace brim::diag
