// See planted.h. Cores that others have.
#include "diag/planted/planted.h"

#include <ctime>
#include <memory>
#include <optional>

#include <brim/data/loader.h>

namespace brim::diag::planted {
namespace {

/// Kernels that all threads work on.
void multiply() {
  static const Tensor m = ones({512, 512});
  for (int i = 0; i < 100 * scale(); ++i) (void)matmul(m, m);
}

/// Work took so long beside others, and so long alone. On a core it is somewhat slower beside
/// others, too, as they share the caches.
void expect_stolen(const Account& a, double disturbed, double alone) {
  expect_whole(a);
  const double planted = disturbed - alone;
  EXPECT_NEAR(at(a, Cause::stolen), planted, tolerance(planted) + 0.05 * alone) << a.table();
}

TEST_P(Planted, StolenCores) {
  if (!on_cpu()) GTEST_SKIP() << "of the thread, whose account is the CPU's";
  std::optional<Hogs> hogs(2 * std::thread::hardware_concurrency());
  const auto on_core = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  double planted = 0;
  const Account a = account_of([&] {
    const double before = on_core();
    const double wall = timed([] {
      const auto begin = Clock::now();
      while (seconds_since(begin) < 0.2 * scale()) {
      }
    });
    planted = wall - (on_core() - before);
  });
  hogs.reset();
  EXPECT_GT(planted, 0.01 * scale());
  expect_row(a, Cause::stolen, planted);
}

TEST_P(Planted, CoresStolenFromKernelsAndTheirHelpers) {
  if (!is_exact()) GTEST_SKIP() << "two times are compared";
  if (!on_cpu()) GTEST_SKIP() << "of the thread, whose account is the CPU's";
  multiply();
  for (const unsigned count : {1U, 2U, 4U}) {
    double alone = 1e9, disturbed = 0;
    for (int i = 0; i < 3; ++i) alone = std::min(alone, timed(multiply));
    const Hogs hogs(count);
    const Account a = account_of([&] { disturbed = timed(multiply); });
    expect_stolen(a, disturbed, alone);
  }
}

TEST_P(Planted, WhatAnotherThreadsKernelsAreStolenIsNotThisOnes) {
  if (!is_exact()) GTEST_SKIP() << "two times are compared";
  if (!on_cpu()) GTEST_SKIP() << "of the thread, whose account is the CPU's";
  multiply();
  double planted = 0;
  const Account a = account_of([&] {
    planted = timed(multiply);
    const Hogs hogs(2);
    std::thread([&] {
      for (int i = 0; i < 3; ++i) multiply();
    }).join();
  });
  expect_row(a, Cause::compute, planted);
}

TEST_P(Planted, CoresStolenBeforeADeviceWaits) {
  if (!is_exact()) GTEST_SKIP() << "it depends on who gets a core";
  if (!on_sim()) GTEST_SKIP() << "the pace is planted";
  use_profile("kernel_us = 400000");
  Tensor x = numbers();
  double planted = 0;
  const Account a = account_of([&] {
    step(x);  // 0.4 s, in which the host has no cores
    {
      const Hogs hogs(4);
      const auto begin = Clock::now();
      while (seconds_since(begin) < 0.3) {
      }
    }
    synchronize(device());
    planted = timed([] { sleep(0.1 * scale()); });
    step(x);
  });
  expect_row(a, Cause::user, planted);
  EXPECT_LT(at(a, Cause::stolen), tolerance(planted)) << a.table();
}

TEST_P(Planted, CoresThatLoaderWorkersTake) {
  if (!is_exact()) GTEST_SKIP() << "two times are compared";
  if (!on_cpu()) GTEST_SKIP() << "of the thread, whose account is the CPU's";
  multiply();
  double alone = 1e9, disturbed = 0;
  for (int i = 0; i < 3; ++i) alone = std::min(alone, timed(multiply));
  const data::Loader loader(std::make_shared<SlowPictures>(60e-3, true, 4000), {},
                            {.batch = 1, .workers = 2, .ahead = 4000});
  auto epoch = loader.epoch(0);
  (void)epoch.next();
  const Account a = account_of([&] { disturbed = timed(multiply); });
  expect_stolen(a, disturbed, alone);
}

}  // namespace
}  // namespace brim::diag::planted
