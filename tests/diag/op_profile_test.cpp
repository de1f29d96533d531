// What an OpProfile counts: calls of kernels while it counts, on its device, that are the step's.
#include <brim/brim.h>
#include <brim/diag/account.h>
#include <brim/diag/op_profile.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "diag/op_records.h"
#include "diag/span.h"

namespace brim::diag {
namespace {

/// The row of an op; it fails without exactly one.
OpTime row(const std::vector<OpTime>& times, const std::string& name) {
  std::vector<OpTime> found;
  std::ranges::copy_if(times, std::back_inserter(found),
                       [&](const OpTime& time) { return time.name == name; });
  EXPECT_EQ(found.size(), 1U) << name;
  return found.empty() ? OpTime{} : found[0];
}

TEST(OpProfile, CountsCallsWithTheirWork) {
  const Tensor a = ones({8, 32}), b = ones({32, 16});
  OpProfile profile(Device::cpu());
  (void)matmul(a, b);  // not yet
  EXPECT_TRUE(profile.read().empty());
  profile.start();
  profile.start();  // it counts already
  for (int i = 0; i < 3; ++i) (void)matmul(a, b);
  (void)matmul(b, ones({16, 4}));
  profile.stop();
  profile.stop();
  (void)matmul(a, b);  // no more
  std::vector<OpTime> products = profile.read();
  std::erase_if(products, [](const OpTime& time) { return time.name != "matmul"; });
  ASSERT_EQ(products.size(), 2U);  // of two sizes
  const OpTime& large = products[products[0].calls == 3 ? 0 : 1];
  EXPECT_EQ(large.calls, 3);
  EXPECT_EQ(large.dtype, f32);
  EXPECT_EQ(large.operations, 2 * 8 * 32 * 16);
  EXPECT_EQ(large.bytes, 4 * (8 * 32 + 32 * 16 + 8 * 16));
  EXPECT_EQ(large.shapes, "(8, 32) (32, 16) (8, 16)");
  EXPECT_GT(large.seconds, 0);
}

TEST(OpProfile, TheDearestIsFirst) {
  OpProfile profile(Device::cpu());
  profile.start();
  const Tensor a = ones({256, 256});
  for (int i = 0; i < 4; ++i) (void)relu(ones({4}));
  for (int i = 0; i < 4; ++i) (void)matmul(a, a);
  const std::vector<OpTime> times = profile.read();
  EXPECT_TRUE(std::ranges::is_sorted(times, std::greater(), &OpTime::seconds));
  EXPECT_EQ(row(times, "relu").calls, 4);
}

TEST(OpProfile, WhatIsNotTheStepsIsLeftOut) {
  const Accountant accountant;
  OpProfile profile(Device::cpu());
  profile.start();
  {
    const Scope scope("evaluate", Cause::evaluation);
    (void)exp(ones({4}));
  }
  (void)relu(ones({4}));
  const std::vector<OpTime> times = profile.read();
  EXPECT_EQ(row(times, "relu").calls, 1);
  for (const OpTime& time : times) EXPECT_NE(time.name, "exp");
}

TEST(OpProfile, IsOfOneDevice) {
  if (Device::count(DeviceKind::sim) < 1) GTEST_SKIP() << "no virtual accelerator";
  OpProfile here(Device::cpu()), there(Device::sim(0));
  here.start();
  there.start();
  const Tensor x = ones({2, 3}, {.device = Device::sim(0)});
  (void)relu(x);
  synchronize(Device::sim(0));
  (void)exp(ones({4}));
  const OpTime relu = row(there.read(), "relu");
  EXPECT_EQ(relu.calls, 1);
  EXPECT_EQ(relu.shapes, "(2, 3) (2, 3)");
  EXPECT_EQ(relu.operations, 6);
  EXPECT_EQ(relu.bytes, 4 * (6 + 6));
  EXPECT_EQ(row(here.read(), "exp").calls, 1);
  for (const OpTime& time : here.read()) EXPECT_NE(time.name, "relu");
}

TEST(OpProfile, AnyThreadReadsIt) {
  OpProfile profile(Device::cpu());
  profile.start();
  std::thread worker([] {
    for (int i = 0; i < 1000; ++i) (void)relu(ones({4}));
  });
  int64_t seen = 0;
  while (seen < 1000) {
    const std::vector<OpTime> times = profile.read();
    const auto at = std::ranges::find(times, std::string("relu"), &OpTime::name);
    const int64_t calls = at == times.end() ? 0 : at->calls;
    ASSERT_GE(calls, seen);
    seen = calls;
  }
  worker.join();
}

TEST(OpProfile, RecordsMayComeLater) {
  const Device device = Device::cuda(0);  // which need not be there
  OpProfile profile(device);
  const uint64_t before = ticks();
  profile.start();
  const uint64_t during = ticks();
  profile.stop();
  const uint64_t after = ticks() + 1;
  op_recorded(device, "early", before - 1, during);
  op_recorded(device, "kernel", during, during + 1000);
  op_recorded(device, "late", after, after + 10);
  op_recorded(Device::cuda(1), "other", during, during + 10);
  const std::vector<OpTime> times = profile.read();
  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].name, "kernel");
  EXPECT_EQ(times[0].bytes, 0);
  EXPECT_GT(times[0].seconds, 0);
}

TEST(OpProfile, CountsWhatPlansReplay) {
  auto step = compile([](const Tensor& x) { return relu(x) * 2; });
  const Tensor x = randn({16});
  (void)step(x);
  OpProfile profile(Device::cpu());
  profile.start();
  for (int i = 0; i < 5; ++i) (void)step(x);
  profile.stop();
  const PlanTimeline plan = step.timeline();
  ASSERT_FALSE(plan.launches.empty());
  const OpTime first = row(profile.read(), plan.launches[0].name);
  EXPECT_EQ(first.calls, 5);
  EXPECT_EQ(first.operations, plan.launches[0].operations);
  EXPECT_EQ(first.bytes, plan.launches[0].bytes);
}

}  // namespace
}  // namespace brim::diag
