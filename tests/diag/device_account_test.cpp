// The account of devices: one partition each, idle time charged to what the next work waited for.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <brim/brim.h>
#include <brim/diag/trace.h>

#include "backend/sim/sim_fixture.h"
#include "diag/device_meter.h"
#include "diag/host_timeline.h"

namespace brim::diag {
namespace {

double at(const Account& a, Cause cause) { return a.seconds[static_cast<size_t>(cause)]; }

/// With what others took the cores for meanwhile, which is charged to itself.
double at_or_stolen(const Account& a, Cause cause) { return at(a, cause) + at(a, Cause::stolen); }

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

void expect_whole(const Account& a) {
  EXPECT_NEAR(std::accumulate(a.seconds.begin(), a.seconds.end(), 0.0), a.wall, 1e-6);
  for (const double s : a.seconds) EXPECT_GE(s, 0);
}

uint64_t share(const Shares& shares, Cause cause) { return shares[static_cast<size_t>(cause)]; }

TEST(HostTimeline, GapsAreSplitByWhatTheHostDid) {
  HostTimeline t(0);
  t.add(Cause::input, 100);
  t.add(Cause::user, 150);
  t.add(Cause::allocator, 180);
  t.add(Cause::compute, 190);
  Shares s = t.reasons(90, 200);
  EXPECT_EQ(share(s, Cause::user), 40u);
  EXPECT_EQ(share(s, Cause::input), 50u);
  EXPECT_EQ(share(s, Cause::allocator), 10u);
  EXPECT_EQ(share(s, Cause::host_compute), 10u);  // the CPU's kernels, as a device sees them
  s = t.reasons(155, 175);
  EXPECT_EQ(share(s, Cause::user), 20u);
  s = t.reasons(120, 130);
  EXPECT_EQ(share(s, Cause::input), 10u);
  EXPECT_EQ(t.reasons(50, 50), Shares{});
}

TEST(HostTimeline, WhatWasTooShortIsCorrected) {
  HostTimeline t(0);
  t.add(Cause::compute, 10);
  t.add(Cause::user, 20);
  t.correct(Cause::dispatch);
  t.add(Cause::compute, 23);
  const Shares s = t.reasons(0, 30);
  EXPECT_EQ(share(s, Cause::user), 10u);
  EXPECT_EQ(share(s, Cause::dispatch), 3u);
  EXPECT_EQ(share(s, Cause::host_compute), 17u);
}

TEST(HostTimeline, TellsTheScopeOfAMoment) {
  HostTimeline t(0);
  t.add(Cause::checkpoint, 100);
  t.add(Cause::dispatch, 200);
  EXPECT_EQ(t.scope_at(50), Cause::other);
  EXPECT_EQ(t.scope_at(100), Cause::checkpoint);
  EXPECT_EQ(t.scope_at(199), Cause::checkpoint);
  EXPECT_EQ(t.scope_at(250), Cause::other);
}

TEST(HostTimeline, WhatWasForgottenIsOther) {
  HostTimeline t(0);
  for (uint64_t i = 1; i <= 200'000; ++i) t.add(i % 2 ? Cause::input : Cause::host_read, i * 10);
  const Shares s = t.reasons(0, 2'000'000);
  EXPECT_GT(share(s, Cause::other), 0u);
  EXPECT_GT(share(s, Cause::input), 0u);
  EXPECT_EQ(share(s, Cause::other) + share(s, Cause::input) + share(s, Cause::host_read),
            2'000'000u);
}

TEST(HostTimeline, TheSameAgainTakesNoMemory) {
  HostTimeline t(0);
  t.add(Cause::input, 5);
  for (uint64_t i = 1; i <= 1'000'000; ++i) t.add(Cause::dispatch, i * 10);
  const Shares s = t.reasons(0, 10'000'000);
  EXPECT_EQ(share(s, Cause::user), 5u);
  EXPECT_EQ(share(s, Cause::input), 5u);
  EXPECT_EQ(share(s, Cause::dispatch), 9'999'990u);
  EXPECT_EQ(t.latest(), 10'000'000u);
}

class DeviceAccount : public SimTest {};

TEST_F(DeviceAccount, KernelsCopiesAndReasonsAddUp) {
  use_profile("kernel_us = 10000\nlink_delay_us = 20000");
  const Device d = Device::sim(0);
  Tensor x = Tensor::empty({16}, f32, d);
  synchronize(d);
  const Accountant accountant({d});
  {
    const Span input("loader", Cause::input);
    sleep_ms(30);
  }
  x.fill_(1);
  x.fill_(2);                             // 20 ms of kernels
  EXPECT_EQ(x.to_vector<float>()[0], 2);  // and a copy of 20 ms
  {
    const Span checkpoint("checkpoint", Cause::checkpoint);
    sleep_ms(15);
  }
  x.fill_(3);
  synchronize(d);
  const Account a = accountant.read(d);
  expect_whole(a);
  EXPECT_GE(at_or_stolen(a, Cause::input), 0.029);
  EXPECT_GE(at_or_stolen(a, Cause::compute), 0.029);
  EXPECT_GE(at_or_stolen(a, Cause::copy_to_host), 0.019);
  EXPECT_GE(at_or_stolen(a, Cause::checkpoint), 0.0145) << a.table();
  EXPECT_THROW(accountant.read(Device::sim(1)), ValueError);
  expect_whole(accountant.read());
  expect_whole(accountant.read(Device::cpu()));
}

TEST_F(DeviceAccount, OneAccountantMayTakeThePlaceOfAnother) {
  const Device d = Device::sim(0);
  auto accountant = std::make_unique<Accountant>(std::vector{d});
  accountant = std::make_unique<Accountant>(std::vector{d});  // made before the other one ends
  {
    const Span span("loader", Cause::input);
    sleep_ms(5);
  }
  EXPECT_EQ(ones({4}, {.device = d}).to_vector<float>()[0], 1);
  const Account a = accountant->read(d);
  expect_whole(a);
  EXPECT_GE(at_or_stolen(a, Cause::input), 0.0049);
  accountant.reset();
  EXPECT_EQ(active_timeline, nullptr);
  EXPECT_EQ(reasons_of_thread(0, 1, ticks()), Shares{});
}

TEST_F(DeviceAccount, UserCodeIsCharged) {
  use_profile("kernel_us = 1000");
  const Device d = Device::sim(0);
  Tensor x = ones({16}, {.device = d});
  synchronize(d);
  const Accountant accountant({d});
  for (int i = 0; i < 5; ++i) {
    x.fill_(i);
    (void)x[0].item();
    sleep_ms(4);  // while the device has nothing to do
  }
  x.fill_(1);
  synchronize(d);
  const Account a = accountant.read(d);
  expect_whole(a);
  EXPECT_GE(at_or_stolen(a, Cause::user), 0.019) << a.table();
  EXPECT_LT(at(a, Cause::host_read), 0.01);
}

TEST_F(DeviceAccount, ComputeHidesCopies) {
  const Device d = Device::sim(0);
  const Stream side = Stream::create(d);
  synchronize(d);
  const Accountant accountant({d});
  Gate gate(Stream::current(d));  // a kernel that runs all the time
  gate.reach();
  {
    const StreamGuard guard(side);
    (void)Tensor::from(std::vector<float>(1 << 20, 1), {1 << 20}, d);
    side.synchronize();
  }
  gate.open();
  synchronize(d);
  const Account a = accountant.read(d);
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
  EXPECT_EQ(at(a, Cause::copy_to_device), 0);
}

TEST_F(DeviceAccount, DevicesHaveAccountsOfTheirOwn) {
  const Device a = Device::sim(0), b = Device::sim(1);
  const Tensor x = zeros({16}, {.device = a});
  synchronize(a);
  synchronize(b);
  const Accountant accountant({a, b});
  Gate gate(Stream::current(a));
  const Tensor y = x.to(b);  // waits for a
  sleep_ms(20);
  gate.open();
  synchronize(b);
  synchronize(a);
  const Account of_a = accountant.read(a), of_b = accountant.read(b);
  expect_whole(of_a);
  expect_whole(of_b);
  EXPECT_GE(at_or_stolen(of_a, Cause::compute), 0.019);
  EXPECT_GE(at_or_stolen(of_b, Cause::peer), 0.019);  // the work of a that b waited for
  EXPECT_EQ(at(of_b, Cause::compute), 0);
}

TEST_F(DeviceAccount, WhatTheHostDidExplainsOneGapOnly) {
  DeviceMeter& meter = DeviceMeter::of(Device::sim(63));
  const uint64_t start = ticks();
  HostTimeline timeline(start);
  HostTimeline* const outer = set_active_timeline(&timeline);
  const Shares before = meter.start();
  timeline.add(Cause::input, ticks());
  sleep_ms(20);
  Reason first = meter.queue_now(), second = meter.queue_now();  // both while it is idle
  timeline.add(Cause::dispatch, ticks());
  meter.begin(Cause::compute, first);
  meter.end(Cause::compute);
  const uint64_t between = ticks();
  sleep_ms(30);
  second.waited = Cause::communication;
  const uint64_t late = ticks();
  meter.begin(Cause::compute, second);
  meter.end(Cause::compute);
  const Shares after = meter.read();
  meter.stop();
  set_active_timeline(outer);
  const auto spent = [&](Cause c) { return share(after, c) - share(before, c); };
  EXPECT_GE(static_cast<double>(spent(Cause::input)), 0.019 * 1e6 * ticks_per_us());
  EXPECT_LE(spent(Cause::input), first.queued - start);
  EXPECT_GE(spent(Cause::communication), late - between);
}

TEST_F(DeviceAccount, AnInnerAccountantTakesNothingAway) {
  use_profile("kernel_us = 5000");
  const Device d = Device::sim(0);
  Tensor x = Tensor::empty({16}, f32, d);
  synchronize(d);
  const Accountant outer({d});
  x.fill_(1);
  synchronize(d);
  {
    const Accountant inner({d});
    EXPECT_EQ(at(inner.read(d), Cause::compute), 0);
    x.fill_(2);
    synchronize(d);
    EXPECT_GE(at_or_stolen(inner.read(d), Cause::compute), 0.0049);
  }
  x.fill_(3);
  synchronize(d);
  EXPECT_GE(at_or_stolen(outer.read(d), Cause::compute), 0.0149);
  expect_whole(outer.read(d));
}

// What stands behind other work in the queue is not late when that takes its time.
TEST_F(DeviceAccount, WaitingInTheQueueStealsNothing) {
  const Device d = Device::sim(0);
  Tensor x = Tensor::empty({16}, f32, d);
  uint64_t stolen = 1;
  for (int i = 0; i < 20 && stolen > 0; ++i) {  // others may have the cores for once
    synchronize(d);
    const Accountant accountant({d});
    Gate gate(Stream::current(d));
    gate.reach();
    const uint64_t before = share(DeviceMeter::of(d).read(), Cause::stolen);
    for (int k = 0; k < 50; ++k) x.fill_(k);
    sleep_ms(2);
    gate.open();
    synchronize(d);
    const Account a = accountant.read(d);
    expect_whole(a);
    EXPECT_GT(at(a, Cause::compute), 0.0019);
    stolen = share(DeviceMeter::of(d).read(), Cause::stolen) - before;
  }
  EXPECT_EQ(stolen, 0U);
}

TEST_F(DeviceAccount, ThreadsThatNobodyMeasuresAreOther) {
  const Device d = Device::sim(0);
  Tensor x = Tensor::empty({16}, f32, d);
  synchronize(d);
  const Accountant accountant({d});
  std::thread([&] {
    sleep_ms(20);
    x.fill_(1);
  }).join();
  synchronize(d);
  EXPECT_GE(at_or_stolen(accountant.read(d), Cause::other), 0.019);
}

TEST_F(DeviceAccount, HeatIsCharged) {
  use_profile("throttle_c = 20\nthrottle_clock = 0.5");
  const Device d = Device::sim(0);
  Tensor x = zeros({1'000'000}, {.device = d});
  synchronize(d);
  const Accountant accountant({d});
  for (int i = 0; i < 20; ++i) x.fill_(1);  // 40 us each at full rate, 80 when hot
  synchronize(d);
  const Account a = accountant.read(d);
  expect_whole(a);
  EXPECT_GE(at_or_stolen(a, Cause::throttle),
            20 * 30e-6);  // one that began late has lost a part of its 40
}

TEST_F(DeviceAccount, MissingDevices) { EXPECT_THROW(Accountant({Device::sim(60)}), DeviceError); }

TEST_F(DeviceAccount, TracesOpenAsJson) {
  const Device d = Device::sim(1);
  Trace trace;
  EXPECT_THROW(Trace(), ValueError);
  EXPECT_THROW(Trace(0), ValueError);
  {
    const Accountant accountant({d});
    const Span step("a \"step\"", Cause::dispatch);
    const Tensor x = ones({4}, {.device = d});
    EXPECT_EQ((x + x).to_vector<float>()[3], 2);
  }
  std::string text;
  trace.write([&](std::string_view piece) { text += piece; });
  const auto json = nlohmann::json::parse(text);
  std::vector<std::string> names, processes;
  for (const auto& e : json["traceEvents"]) {
    if (e["ph"] == "X") {
      names.push_back(e["name"]);
      EXPECT_GE(e["dur"].get<double>(), 0);
      EXPECT_GE(e["ts"].get<double>(), 0);
    } else if (e["name"] == "process_name") {
      processes.push_back(e["args"]["name"]);
    }
  }
  const auto has = [](const std::vector<std::string>& all, const std::string& name) {
    return std::count(all.begin(), all.end(), name);
  };
  EXPECT_EQ(has(processes, "host"), 1);
  EXPECT_EQ(has(processes, "sim:1"), 1);
  EXPECT_EQ(has(names, "a \"step\""), 1);
  EXPECT_GE(has(names, "add"), 2);   // queued by the host, done by the device
  EXPECT_GE(has(names, "copy"), 1);  // of the device
  EXPECT_EQ(trace.events(), static_cast<int64_t>(names.size()));
  EXPECT_EQ(trace.dropped(), 0);
}

TEST_F(DeviceAccount, TracesKeepTheFirstEvents) {
  Trace trace(3);
  const Accountant accountant;
  for (int i = 0; i < 10; ++i) const Span span("x", Cause::compute);
  EXPECT_EQ(trace.events(), 3);
  EXPECT_EQ(trace.dropped(), 7);
}

TEST_F(DeviceAccount, IsReadWhileTheDeviceWorks) {
  const Device sim = Device::sim(0);
  const Accountant accountant({sim});
  const Tensor x = ones({256, 256}).to(sim);
  Tensor y = x;
  Account before = accountant.read_so_far(sim);
  for (int i = 0; i < 20; ++i) {
    y = matmul(y, x);
    const Account now = accountant.read_so_far(sim);  // of what is queued, none or some is done
    expect_whole(now);
    EXPECT_GE(now.wall, before.wall);
    EXPECT_GE(at_or_stolen(now, Cause::compute), at_or_stolen(before, Cause::compute) * 0.99);
    before = now;
  }
  synchronize(sim);
  const Account idle = accountant.read_so_far(sim), last = accountant.read(sim);
  EXPECT_NEAR(at(idle, Cause::compute), at(last, Cause::compute), 0.01 * last.wall);
  EXPECT_THROW(accountant.read_so_far(Device::sim(1)), ValueError);
}

}  // namespace
}  // namespace brim::diag
