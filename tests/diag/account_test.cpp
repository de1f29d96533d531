// The account: nesting of spans, the residual, and rows that add up.
#include <brim/diag/account.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <random>

#include <brim/ops/binary.h>
#include <brim/ops/create.h>

#include "diag/span.h"

namespace brim::diag {
namespace {

void spin(int microseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

double sum(const std::array<double, kCauseCount>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Computing, with what a busy machine stole of it, which of some microseconds may be all.
double computed(const Account& a) {
  return a.seconds[static_cast<size_t>(Cause::compute)] +
         a.seconds[static_cast<size_t>(Cause::stolen)];
}

TEST(Account, InnerSpanIsTakenOffTheOuterOne) {
  const Accountant accountant;
  {
    const Span step("step", Cause::dispatch);
    spin(200);
    {
      const Span kernel("kernel", Cause::compute);
      spin(2000);
      const Span read("read", Cause::host_read);
      spin(1000);
    }
    const Span kernel("kernel", Cause::compute);
    spin(2000);
  }
  spin(500);
  const Account a = accountant.read();
  const auto at = [&](Cause c) { return a.seconds[static_cast<size_t>(c)]; };
  // A busy machine makes each of them longer, never shorter, and what it steals is a row.
  const double stolen = at(Cause::stolen);
  EXPECT_GE(at(Cause::dispatch) + stolen, 190e-6);
  EXPECT_GE(at(Cause::compute) + stolen, 3.9e-3);
  EXPECT_GE(at(Cause::host_read) + stolen, 0.95e-3);
  EXPECT_GE(at(Cause::user) + stolen, 0.45e-3);
  EXPECT_NEAR(sum(a.seconds), a.wall, 1e-9);
}

TEST(Account, WhatIsInNoSpanIsUserCode) {
  const Accountant accountant;
  const Account a = accountant.read();
  EXPECT_DOUBLE_EQ(a.fraction(Cause::user) + a.fraction(Cause::stolen), 1);
  EXPECT_DOUBLE_EQ(Account{}.fraction(Cause::other), 1);
  EXPECT_DOUBLE_EQ(sum(Account{}.percent()), 100);
}

TEST(Account, SpansOutsideCostNothingAndChargeNothing) {
  ASSERT_EQ(active_meter, nullptr);
  const Span span("kernel", Cause::compute);
  const Accountant accountant;
  EXPECT_NE(active_meter, nullptr);
}

TEST(Account, TheInnermostAccountantMeasuresAndAddsToTheOuterOneAtItsEnd) {
  const Accountant outer;
  double found = 0;
  {
    const Accountant inner;
    {
      const Span span("kernel", Cause::compute), nested("kernel", Cause::compute);
      spin(200);
    }
    found = computed(inner.read());
    EXPECT_GT(found, 0);
    EXPECT_EQ(outer.read().fraction(Cause::compute), 0);
  }
  const Account a = outer.read();
  EXPECT_GE(computed(a), found * 0.9);  // ticks are scaled to seconds anew
  EXPECT_LE(computed(a), found * 1.1 + a.seconds[static_cast<size_t>(Cause::stolen)]);
  EXPECT_NEAR(sum(a.seconds), a.wall, 1e-9);
}

TEST(Account, OneMayTakeThePlaceOfAnother) {
  auto accountant = std::make_unique<Accountant>();
  const Meter* const first = active_meter;
  accountant = std::make_unique<Accountant>();  // made before the other one ends
  EXPECT_NE(active_meter, first);
  EXPECT_NE(active_meter, nullptr);
  { const Span span("kernel", Cause::compute); }
  EXPECT_GT(computed(accountant->read()), 0);
  accountant.reset();
  EXPECT_EQ(active_meter, nullptr);
}

TEST(Account, OpsAreChargedAsCompute) {
  const Tensor x = ones({64, 64});
  const Accountant accountant;
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = y + x;
  EXPECT_GT(computed(accountant.read()), 0);
  (void)y.to_vector<float>();
  EXPECT_GT(accountant.read().fraction(Cause::host_read), 0);
}

TEST(Account, RoundedRowsAddUpToOneHundred) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 1000; ++trial) {
    Account a;
    for (double& s : a.seconds) s = trial % 3 && random() % 2 ? 0 : random() * 1e-9;
    a.wall = sum(a.seconds);
    double tenths = 0;
    const auto percent = a.percent();
    for (size_t i = 0; i < kCauseCount; ++i) {
      tenths += std::round(percent[i] * 10);
      EXPECT_LE(std::abs(percent[i] / 100 - a.fraction(static_cast<Cause>(i))), 0.001 + 1e-12);
    }
    EXPECT_EQ(tenths, 1000);
  }
}

TEST(Account, TableEndsWithOtherAndTotal) {
  Account a{.wall = 3};
  a.seconds[static_cast<size_t>(Cause::compute)] = 2;
  a.seconds[static_cast<size_t>(Cause::other)] = 1;
  EXPECT_EQ(a.table(),
            "  compute            2.000 s   66.7 %\n"
            "  other              1.000 s   33.3 %\n"
            "  total              3.000 s  100.0 %\n");
}

}  // namespace
}  // namespace brim::diag
