// Collectives that go on while their caller computes.
#include <brim/dist/collective_queue.h>

#include <brim/core/error.h>
#include <brim/core/stream.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/plan/compile.h>

#include <atomic>

#include "dist/run_ranks.h"

namespace brim::dist {
namespace {

class Queues : public testing::TestWithParam<const char*> {
 protected:
  std::vector<GroupPtr> groups(int size) const { return groups_of(GetParam(), size); }
  /// Calls `rank` as each of two, with the CPU and then with virtual accelerators of their own.
  void with_devices(const std::function<void(ProcessGroup&, const Device&)>& rank) const {
    run_ranks(groups(2), [&](ProcessGroup& group) { rank(group, Device::cpu()); });
    const std::vector<Device> sims = Device::all("sim");
    if (sims.size() < 2) GTEST_SKIP() << "needs two virtual accelerators";
    run_ranks(groups(2),
              [&](ProcessGroup& group) { rank(group, sims[static_cast<size_t>(group.rank())]); });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Queues, testing::Values("local", "tcp"),
                         [](const auto& backend) { return std::string(backend.param); });

double first_of(const Tensor& t) { return t.cpu().to_vector<float>().at(0); }

TEST_P(Queues, SumAsTheCallsThemselvesDo) {
  with_devices([](ProcessGroup& group, const Device& device) {
    CollectiveQueue queue(group.shared_from_this(), device);
    const TensorOptions options{.device = device};
    for (int step = 0; step < 20; ++step) {
      Tensor a = full({1000}, group.rank() + step, options), b = full({7}, group.rank(), options);
      const Tensor x = full({50, 50}, step, options);
      Pending first = queue.start([a](ProcessGroup& g) mutable { all_reduce(g, a); });
      Pending second = queue.start([b](ProcessGroup& g) mutable { broadcast(g, b, 1); });
      const Tensor y = x * x;
      Tensor c = full({3}, 1, options);
      all_reduce(group, c);  // a call of the group itself between them
      first.wait();
      EXPECT_EQ(first_of(a), 1 + 2 * step);
      second.wait();
      EXPECT_EQ(first_of(b), 1);
      EXPECT_EQ(first_of(c), 2);
      EXPECT_EQ(first_of(y), step * step);
    }
  });
}

TEST_P(Queues, StartReturnsBeforeOthersHaveCome) {
  std::atomic<bool> has_started{false};
  run_ranks(groups(2), [&](ProcessGroup& group) {
    CollectiveQueue queue(group.shared_from_this(), Device::cpu());
    Tensor a = full({100}, 1);
    if (group.rank() == 1)
      while (!has_started) std::this_thread::yield();
    Pending sum = queue.start([&](ProcessGroup& g) { all_reduce(g, a); });
    has_started = true;
    sum.wait();
    sum.wait();
    EXPECT_EQ(first_of(a), 2);
  });
}

TEST_P(Queues, ManyThatNobodyWaitsFor) {
  with_devices([](ProcessGroup& group, const Device& device) {
    Tensor a = full({3}, 1, {.device = device}), b = full({3}, 1, {.device = device});
    {
      CollectiveQueue queue(group.shared_from_this(), device);
      for (int i = 0; i < 1100; ++i)
        queue.start([a](ProcessGroup& g) mutable { broadcast(g, a, 1); });
      queue.start([b](ProcessGroup& g) mutable { all_reduce(g, b); });
    }
    EXPECT_EQ(first_of(b), 2);
  });
}

TEST_P(Queues, WaitThrowsWhatTheCallThrew) {
  const std::vector<std::string> failures = failures_of(groups(2), [&](ProcessGroup& group) {
    CollectiveQueue queue(group.shared_from_this(), Device::cpu());
    Tensor a = full({group.rank() == 0 ? 3 : 4}, 1);
    Pending sum = queue.start([&](ProcessGroup& g) { all_reduce(g, a); });
    sum.wait();
  });
  for (const std::string& failure : failures) {
    EXPECT_TRUE(has(failure, "all_reduce (sum) of 3 f32")) << failure;
    EXPECT_TRUE(has(failure, "all_reduce (sum) of 4 f32")) << failure;
  }
}

TEST(CollectiveQueue, NotInCompiledSteps) {
  const GroupPtr group = local_groups(1)[0];
  CollectiveQueue queue(group, Device::cpu());
  Pending().wait();
  auto step = compile([&](const Tensor& x) {
    queue.start([x](ProcessGroup&) {});
    return x + 1;
  });
  const Tensor x = full({2}, 1);
  EXPECT_THROW(
      {
        (void)step(x);
        (void)step(x);
      },
      CompileError);
}

}  // namespace
}  // namespace brim::dist
