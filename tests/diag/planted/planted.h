// Causes of known size, planted where an account is read: each row has to be what was planted.
//
// What is planted is measured by a clock of the test's own, so that a busy machine makes it longer
// and not wrong; but it is time, and a machine that does much else may spoil it. So these tests run
// where BRIM_PLANTED says how much is planted: 1, or 10 for ten times as much, as .ci/full does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <brim/brim.h>
#include <brim/diag/account.h>

#include "backend/sim/sim_fixture.h"

namespace brim::diag::planted {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Runs f and returns how long it took.
template <class F>
double timed(const F& f) {
  const auto begin = Clock::now();
  f();
  return seconds_since(begin);
}

/// How much more than in a quick run is planted.
inline double scale() {
  const char* text = std::getenv("BRIM_PLANTED");
  return text ? std::max(1.0, std::strtod(text, nullptr)) : 1;
}

inline void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

inline double at(const Account& a, Cause cause) { return a.seconds[static_cast<size_t>(cause)]; }

/// The rows add up to the wall time, and none is negative.
inline void expect_whole(const Account& a) {
  EXPECT_NEAR(std::accumulate(a.seconds.begin(), a.seconds.end(), 0.0), a.wall, 1e-6);
  for (const double s : a.seconds) EXPECT_GE(s, 0);
}

/// A row is within 5 % of what was planted, and a millisecond; what others stole of it is a row of
/// its own.
inline void expect_row(const Account& a, Cause cause, double planted) {
  expect_whole(a);
  const double tolerance = 0.05 * planted + 1e-3;
  const double stolen = cause == Cause::stolen ? 0 : at(a, Cause::stolen);
  EXPECT_LE(at(a, cause), planted + tolerance) << name(cause) << "\n" << a.table();
  EXPECT_GE(at(a, cause) + stolen, planted - tolerance) << name(cause) << "\n" << a.table();
}

/// Each test on the CPU, whose account is the thread's, and on a virtual accelerator.
class Planted : public SimTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (!std::getenv("BRIM_PLANTED")) GTEST_SKIP() << "set BRIM_PLANTED=1 on an idle machine";
    SimTest::SetUp();
  }
  Device device() const {
    return std::string(GetParam()) == "cpu" ? Device::cpu() : Device::sim(0);
  }
  bool on_cpu() const { return device().is_cpu(); }
  /// What both accounts call kernels of the CPU.
  Cause host_kernels() const { return on_cpu() ? Cause::compute : Cause::host_compute; }

  /// The account of the device while f ran. The device is idle before and after.
  template <class F>
  Account account_of(const F& f) const {
    synchronize(device());
    const Accountant accountant({device()});
    f();
    synchronize(device());
    return accountant.read(device());
  }
  /// A small step that ends on the device.
  void step(Tensor& x) const { x.add_(x); }
  Tensor numbers(int64_t n = 16) const { return ones({n}, {.device = device()}); }
};

inline std::string name_of(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

}  // namespace brim::diag::planted
