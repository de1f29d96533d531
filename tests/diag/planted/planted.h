// Causes of known size, planted where an account is read: each row has to be what was planted.
//
// What is planted is measured by a clock of the test's own, so that a busy machine makes it longer
// and not wrong; but it is time, and a machine that does much else may spoil it. So rows are held
// to 5 % where BRIM_PLANTED says how much is planted, on an idle machine: 1, or 10 for ten times as
// much, as .ci/full does. Otherwise little is planted, and half of it has to be found.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <brim/brim.h>
#include <brim/data/source.h>
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

/// Whether rows have to be exact.
inline bool is_exact() { return std::getenv("BRIM_PLANTED") != nullptr; }
/// How much is planted, of what a run by hand plants.
inline double scale() {
  return is_exact() ? std::max(1.0, std::strtod(std::getenv("BRIM_PLANTED"), nullptr)) : 0.5;
}
/// How much a row may lack of what was planted.
inline double tolerance(double planted) {
  return is_exact() ? 0.05 * planted + 1e-3 : 0.5 * planted + 2e-3;
}
/// How much more may be there.
inline double surplus(double planted) { return is_exact() ? tolerance(planted) : planted + 50e-3; }

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
  const double stolen = cause == Cause::stolen ? 0 : at(a, Cause::stolen);
  EXPECT_LE(at(a, cause), planted + surplus(planted)) << name(cause) << "\n" << a.table();
  EXPECT_GE(at(a, cause) + stolen, planted - tolerance(planted)) << name(cause) << "\n"
                                                                 << a.table();
}

/// Pictures that take a while to read.
class SlowPictures final : public data::Source {
 public:
  /// With `busy` they keep a core busy meanwhile.
  explicit SlowPictures(double seconds, bool busy = false, int64_t size = 12)
      : seconds_(seconds), busy_(busy), size_(size) {}
  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return i % 2; }
  data::ImageShape image_shape() const override { return {3, 2, 2}; }
  std::string describe(int64_t i) const override { return "picture " + std::to_string(i); }
  void read(int64_t, data::Image& out) const override {
    const auto begin = Clock::now();
    while (busy_ && seconds_since(begin) < seconds_) {
    }
    if (!busy_) sleep(seconds_);
    read_ns += static_cast<int64_t>(1e9 * seconds_since(begin));
    out = {2, 2, 3, std::vector<uint8_t>(12, 7)};
  }

  mutable std::atomic<int64_t> read_ns{0};  ///< that reading took

 private:
  double seconds_;
  bool busy_;
  int64_t size_;
  std::vector<std::string> classes_{"even", "odd"};
};

/// Threads that want a core each, all the time.
class Hogs {
 public:
  explicit Hogs(unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
  }
  ~Hogs() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Each test on the CPU, whose account is the thread's, on a virtual accelerator, and on CUDA or
/// its emulation.
class Planted : public SimTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    SimTest::SetUp();
    if (!device().available())
      GTEST_SKIP() << "no CUDA: for the emulation set BRIM_BACKEND_PATH, and "
                      "BRIM_EMULATED_AT_ONCE=1, without which its queues are late";
  }
  Device device() const {
    const std::string name = GetParam();
    return name == "cpu" ? Device::cpu() : name == "sim" ? Device::sim(0) : Device::cuda(0);
  }
  bool on_cpu() const { return device().is_cpu(); }
  /// Where a pace can be planted.
  bool on_sim() const { return device().kind == DeviceKind::sim; }
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
