// What the account, traces and sensors see of CUDA devices, whatever records it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include <brim/brim.h>
#include <brim/diag/account.h>
#include <brim/diag/detail.h>
#include <brim/diag/monitor.h>

#include "backend/cuda/observe_fixture.h"
#include "diag/gpu_sensor.h"
#include "diag/span.h"
#include "environment.h"

namespace brim {
namespace {

TEST_F(CudaObserve, AccountsAddUp) {
  const Account a = measured();
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
  EXPECT_GT(at(a, Cause::copy_to_device), 0);
  EXPECT_EQ(at(a, Cause::communication), 0);
}

TEST_F(CudaObserve, MeasuringCanBeRepeatedAndNested) {
  work();  // that nobody measures
  const Accountant outer({gpu});
  work();
  synchronize(gpu);
  double inside = 0;
  for (int i = 0; i < 2; ++i) {
    const Accountant inner({gpu});
    EXPECT_EQ(at(inner.read(gpu), Cause::compute), 0);
    work();
    synchronize(gpu);
    const Account a = inner.read(gpu);
    expect_whole(a);
    EXPECT_GT(at(a, Cause::compute), 0);
    inside += at(a, Cause::compute);
  }
  const Account all = outer.read(gpu);
  expect_whole(all);
  EXPECT_GT(at(all, Cause::compute), inside);
}

TEST_F(CudaObserve, IdleTimeIsChargedToWhatTheHostDid) {
  work();
  synchronize(gpu);
  Tensor x = ones({16}, {.device = gpu});
  synchronize(gpu);
  const Accountant accountant({gpu});
  {
    const diag::Span span("loader", Cause::input);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  x.fill_(2);
  synchronize(gpu);
  {
    const diag::Span span("checkpoint", Cause::checkpoint);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(sum(x).item(), 32);
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_GE(at(a, Cause::input) + at(a, Cause::stolen), 0.019) << a.table();
  EXPECT_GE(at(a, Cause::checkpoint) + at(a, Cause::stolen), 0.009);
}

TEST_F(CudaObserve, OtherDevicesAreNotSeen) {
  if (Device::count(DeviceKind::cuda) < 2) GTEST_SKIP() << "one GPU only";
  const Device other = Device::cuda(1);
  const Accountant accountant({other});
  work();
  synchronize(gpu);
  EXPECT_EQ(at(accountant.read(other), Cause::compute), 0);
  const Tensor x = ones({1000}, {.device = other});
  EXPECT_EQ(sum(x + x).item(), 2000);
  const Account a = accountant.read(other);
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute) + at(a, Cause::copy_to_host), 0);
}

// The emulation has no pace, so that nothing is waited for long; but the device is told of the
// wait.
TEST_F(CudaObserve, WaitingForAnotherDeviceIsPeer) {
  if (Device::count(DeviceKind::cuda) < 2) GTEST_SKIP() << "one GPU only";
  const Device other = Device::cuda(1);
  Tensor x = ones({1 << 16}, {.device = other});
  Tensor y = ones({16}, {.device = gpu});
  synchronize(other);
  synchronize(gpu);
  const Accountant accountant({gpu});
  for (int i = 0; i < 200; ++i) x.add_(x);
  Event done;
  done.record(Stream::current(other));
  done.wait(Stream::current(gpu));
  y.add_(y);
  synchronize(gpu);
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_GT(at(a, Cause::peer), 0) << a.table();
}

TEST_F(CudaObserve, GraphsAreCompute) {
  (void)measured();  // the fake sees nodes of graphs that are captured later
  Tensor x = ones({4096}, {.device = gpu}), y = zeros({4096}, {.device = gpu});
  auto step = compile([&](const Tensor& in) {
    y.copy_(in * 2 + 1);
    return y;
  });
  for (int i = 0; i < 6; ++i) (void)step(x);
  synchronize(gpu);
  const auto expect_compute = [&](const char* detail) {
    SCOPED_TRACE(detail);
    const Accountant accountant({gpu});
    for (int i = 0; i < 6; ++i) (void)step(x);
    synchronize(gpu);
    const Account a = accountant.read(gpu);
    expect_whole(a);
    EXPECT_GT(at(a, Cause::compute), 0);
  };
  expect_compute("graphs");
  {
    const diag::NodeDetail detail;
    expect_compute("nodes");
  }
  expect_compute("graphs after nodes");
}

TEST_F(CudaObserve, TracesHaveItsWork) {
  const auto json = traced([&] { work(); }, gpu);
  int kernels = 0, copies = 0;
  int64_t process = -1;
  for (const auto& e : json["traceEvents"])
    if (e["ph"] == "M" && e["name"] == "process_name" && e["args"]["name"] == "cuda:0")
      process = e["pid"];
  ASSERT_GE(process, 0);
  for (const auto& e : json["traceEvents"]) {
    if (e["ph"] != "X" || e["pid"] != process) continue;
    kernels += e["cat"] == "compute";
    copies += e["cat"] == "copy to device" || e["cat"] == "copy to host";
    EXPECT_GE(e["dur"].get<double>(), 0);
    EXPECT_NE(e["name"], "");
  }
  EXPECT_GE(kernels, 21);
  EXPECT_GE(copies, 2);
}

TEST_F(CudaObserve, WhatCannotBeMeasuredLeavesNothingBehind) {
  if (!runtime(DeviceKind::cuda).description(0).starts_with("emulated"))
    GTEST_SKIP() << "a lost GPU can be had in the emulation only";
  if (faked("libcupti.so.13")) GTEST_SKIP() << "CUPTI begins whatever the device does";
  {
    const tests::Environment lost("BRIM_EMULATED_LOST", "0");
    EXPECT_THROW(Accountant({gpu}), DeviceError);
    EXPECT_EQ(diag::active_meter, nullptr);
  }
  const Account a = measured();
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
}

TEST_F(CudaObserve, SensorsAreThoseOfTheSamePciBusId) {
  if (!faked("libnvidia-ml.so.1")) GTEST_SKIP() << "needs the fake of NVML";
  diag::Monitor monitor({Device::cpu(), gpu, Device::cuda(1)}, {.period = 3600, .sink = {}});
  monitor.read_now();
  monitor.read_now();
  const diag::MonitorSummary s = monitor.summary();
  ASSERT_EQ(s.mean.gpus.size(), 2u);
  const diag::GpuReading& r = s.mean.gpus[0].second;
  EXPECT_EQ(r.error, "");
  EXPECT_DOUBLE_EQ(*r.utilisation, 0.97);
  EXPECT_DOUBLE_EQ(*r.sm_active, 0.8375);  // between the two readings
  EXPECT_DOUBLE_EQ(*r.tensor_active, 0.4125);
  EXPECT_DOUBLE_EQ(*r.memory_bandwidth, 0.625);
  EXPECT_EQ(*r.pcie_in, int64_t{1} << 30);
  EXPECT_EQ(*r.pcie_out, int64_t{1} << 28);
  EXPECT_FALSE(r.nvlink_in || r.nvlink_out);
  EXPECT_DOUBLE_EQ(*r.fan, 0.55);
  EXPECT_EQ(r.ecc_corrected, 12);
  EXPECT_EQ(r.ecc_uncorrected, 1);
  EXPECT_EQ(*r.memory_used, int64_t{20} << 30);
  EXPECT_EQ(*r.memory_total, int64_t{80} << 30);
  EXPECT_EQ(*r.temperature, 64);
  EXPECT_DOUBLE_EQ(*r.power, 698.5);
  EXPECT_DOUBLE_EQ(*r.power_limit, 700);
  EXPECT_EQ(*r.sm_clock, 1485);
  EXPECT_EQ(*r.memory_clock, 2619);
  EXPECT_DOUBLE_EQ(r.slowdown(), 0.25);
  EXPECT_EQ(r.clocks_held_by, (std::vector<std::string>{"power cap", "heat (hardware)"}));
  EXPECT_EQ(s.throttled_share[0], 1);
  const diag::GpuReading& second = s.mean.gpus[1].second;
  EXPECT_DOUBLE_EQ(*second.utilisation, 0.01);
  EXPECT_FALSE(second.power.has_value());
  EXPECT_EQ(second.pcie_in, 3e6);  // a card without GPM
  EXPECT_EQ(second.pcie_out, 2e6);
  EXPECT_FALSE(second.fan || second.memory_bandwidth || second.ecc_corrected);
  EXPECT_FALSE(second.sm_active.has_value());
  EXPECT_FALSE(second.throttled);
  EXPECT_EQ(second.clocks_held_by, std::vector<std::string>{"idle"});
}

TEST_F(CudaObserve, CardsAndTheirProcessesAreNamed) {
  if (!faked("libnvidia-ml.so.1")) GTEST_SKIP() << "needs the fake of NVML";
  diag::GpuSensor& sensor = *diag::gpu_sensor(DeviceKind::cuda);
  EXPECT_EQ(sensor.uuid(0).size(), std::string("GPU-e0000000-0000-0000-0000-000000000000").size());
  EXPECT_TRUE(sensor.uuid(0).starts_with("GPU-"));
  EXPECT_NE(sensor.uuid(0), sensor.uuid(1));
  EXPECT_EQ(sensor.uuid(1000), "");
  const std::vector<diag::GpuProcess> processes = sensor.processes(0);
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].pid, 4242);
  EXPECT_EQ(processes[0].memory, int64_t{6} << 30);
  EXPECT_DOUBLE_EQ(processes[0].utilisation.value(), 0.7);  // the newest
  EXPECT_EQ(processes[1].pid, getpid());
  EXPECT_FALSE(processes[1].memory || processes[1].utilisation);
  EXPECT_FALSE(sensor.processes(0)[0].utilisation);  // nothing since
  EXPECT_TRUE(sensor.processes(1).empty());
}

TEST_F(CudaObserve, ThrottlingIsInTheAccount) {
  if (!faked("libnvidia-ml.so.1")) GTEST_SKIP() << "needs the fake of NVML";
  synchronize(gpu);
  const Accountant accountant({gpu});
  diag::Monitor monitor({gpu}, {.period = 3600, .sink = {}});
  work();
  const double compute = at(accountant.read(gpu), Cause::compute);
  monitor.read_now();
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_NEAR(at(a, Cause::throttle), compute / 4, compute / 100 + 1e-6);
}

}  // namespace
}  // namespace brim
