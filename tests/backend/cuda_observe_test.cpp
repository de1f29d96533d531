// What the account, traces and sensors see of CUDA devices. Runs on GPUs, over the emulation with
// CUDA events, and over the emulation with fakes of CUPTI and NVML (BRIM_CUDA_LIBRARIES), which
// tests of these need.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <brim/brim.h>
#include <brim/diag/account.h>
#include <brim/diag/detail.h>
#include <brim/diag/monitor.h>
#include <brim/diag/trace.h>

#include "core/runtime.h"
#include "diag/span.h"

namespace brim {
namespace {

using diag::Account;
using diag::Accountant;
using diag::Cause;

double at(const Account& a, Cause cause) { return a.seconds[static_cast<size_t>(cause)]; }

class CudaObserve : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0)
      GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
  }
  void TearDown() override { unsetenv("BRIM_FAKE_CUPTI"); }
  /// The fakes stand in the place of NVIDIA's libraries.
  static bool faked(const char* soname) {
    const char* folder = std::getenv("BRIM_CUDA_LIBRARIES");
    return folder && std::filesystem::path(folder).filename() == "fakes" &&
           std::filesystem::exists(std::filesystem::path(folder) / soname);
  }
  /// Some kernels and copies both ways.
  void work() const {
    Tensor x = zeros({1 << 16}).to(gpu);
    for (int i = 0; i < 10; ++i) x = relu(x + 1);
    EXPECT_EQ(sum(x).item(), 10 * (1 << 16));
  }
  /// The account of work().
  Account measured() const {
    synchronize(gpu);
    const Accountant accountant({gpu});
    work();
    synchronize(gpu);
    return accountant.read(gpu);
  }
  static void expect_whole(const Account& a) {
    EXPECT_NEAR(std::accumulate(a.seconds.begin(), a.seconds.end(), 0.0), a.wall, 1e-6);
    for (const double s : a.seconds) EXPECT_GE(s, 0);
    const auto percent = a.percent();
    EXPECT_NEAR(std::accumulate(percent.begin(), percent.end(), 0.0), 100, 1e-9);
  }
  const Device gpu = Device::cuda(0);
};

TEST_F(CudaObserve, AccountsAddUp) {
  const Account a = measured();
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
  EXPECT_GT(at(a, Cause::copy), 0);
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
  EXPECT_GE(at(a, Cause::input), 0.019);
  EXPECT_GE(at(a, Cause::checkpoint), 0.009);
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
  EXPECT_GT(at(a, Cause::compute) + at(a, Cause::copy), 0);
}

TEST_F(CudaObserve, GraphsAreCompute) {
  Tensor x = ones({4096}, {.device = gpu}), y = zeros({4096}, {.device = gpu});
  auto step = compile([&](const Tensor& in) {
    y.copy_(in * 2 + 1);
    return y;
  });
  for (int i = 0; i < 6; ++i) (void)step(x);
  synchronize(gpu);
  const Accountant accountant({gpu});
  for (int i = 0; i < 6; ++i) (void)step(x);
  synchronize(gpu);
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
}

nlohmann::json json_of(const diag::Trace& trace) {
  std::string text;
  trace.write([&](std::string_view piece) { text += piece; });
  return nlohmann::json::parse(text);
}

nlohmann::json traced(const std::function<void()>& work, Device device) {
  const diag::Trace trace;
  {
    const Accountant accountant({device});
    work();
    synchronize(device);
    (void)accountant.read(device);
  }
  return json_of(trace);
}

/// The names of what cuda:0 did.
std::vector<std::string> work_in(const nlohmann::json& trace) {
  int64_t process = -1;
  for (const auto& e : trace["traceEvents"])
    if (e["ph"] == "M" && e["name"] == "process_name" && e["args"]["name"] == "cuda:0")
      process = e["pid"];
  std::vector<std::string> names;
  for (const auto& e : trace["traceEvents"])
    if (e["ph"] == "X" && e["pid"] == process) names.push_back(e["name"]);
  return names;
}

/// What the fake of CUPTI records at this moment.
std::string kinds() {
  const std::string path = std::string(std::getenv("BRIM_CUDA_LIBRARIES")) + "/libcupti.so.13";
  void* const fake = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!fake) return "the fake is not loaded";
  auto* const ask = reinterpret_cast<const char* (*)()>(dlsym(fake, "brim_fake_cupti_kinds"));
  const std::string result = ask ? ask() : "?";
  (void)dlclose(fake);
  return result;
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
    copies += e["cat"] == "copy";
    EXPECT_GE(e["dur"].get<double>(), 0);
    EXPECT_NE(e["name"], "");
  }
  EXPECT_GE(kernels, 21);
  EXPECT_GE(copies, 2);
}

TEST_F(CudaObserve, KernelsHaveTheirNamesByCupti) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  const auto json = traced([&] { work(); }, gpu);
  const auto& events = json["traceEvents"];
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const auto& e) {
    return e["ph"] == "X" && e["name"] == "unary_kernel<float, Relu>";
  }));
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const auto& e) {
    return e["ph"] == "X" && e["name"] == "copy to the device";
  }));
}

TEST_F(CudaObserve, GraphsAreOneRecordUnlessNodesAreAskedFor) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  const std::string always = "copies memsets kernels copies-between ";
  Tensor x = ones({256}, {.device = gpu}), y = zeros({256}, {.device = gpu});
  auto step = compile([&](const Tensor& in) {
    y.copy_(relu(in) * 2 + 1);
    return y;
  });
  const auto steps = [&](int n) {
    for (int i = 0; i < n; ++i) (void)step(x);
    synchronize(gpu);
  };
  steps(6);
  const auto account = std::make_unique<Accountant>(std::vector{gpu});
  EXPECT_EQ(kinds(), always + "graphs ");
  {
    const diag::Trace trace;
    steps(4);
    const Account a = account->read(gpu);
    expect_whole(a);
    EXPECT_GT(at(a, Cause::compute), 0);
    const auto names = work_in(json_of(trace));
    EXPECT_EQ(std::count(names.begin(), names.end(), "graph"), 4);
    EXPECT_EQ(names.size(), 4u);
  }
  const auto names = work_in(traced([&] { steps(4); }, gpu));  // beside the account
  EXPECT_EQ(std::count(names.begin(), names.end(), "graph"), 0);
  EXPECT_GE(names.size(), 4u);
  EXPECT_EQ(kinds(), always + "graphs ");
  {
    const diag::NodeDetail nodes;
    const Accountant inner({gpu});
    EXPECT_EQ(kinds(), always);
    const Accountant other({gpu});
    EXPECT_EQ(kinds(), always);
  }
  EXPECT_EQ(kinds(), always + "graphs ");
}

TEST_F(CudaObserve, NothingIsRecordedWhileNobodyMeasures) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  (void)measured();
  EXPECT_EQ(kinds(), "");
}

TEST_F(CudaObserve, RecordsAreToldWhileTheDeviceWorks) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  Tensor x = ones({16}, {.device = gpu});
  const auto fill = [&] {
    for (int i = 0; i < 100; ++i) x.fill_(i);
  };
  const size_t all = work_in(traced(fill, gpu)).size();
  setenv("BRIM_FAKE_CUPTI", "small", 1);
  const diag::Trace trace;
  const Accountant accountant({gpu});
  {
    const diag::Span span("loader", Cause::input);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  fill();
  const size_t told = work_in(json_of(trace)).size();  // by a thread of CUPTI's
  EXPECT_GT(told, all / 2);
  EXPECT_LT(told, all);  // the last buffers are kept back
  synchronize(gpu);
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_EQ(work_in(json_of(trace)).size(), all);
  EXPECT_GE(at(a, Cause::input), 0.0049);
  EXPECT_GT(at(a, Cause::compute), 0);
}

TEST_F(CudaObserve, LostRecordsAreTold) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  setenv("BRIM_FAKE_CUPTI", "dropped", 1);
  ::testing::internal::CaptureStderr();
  const Account a = measured();
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_whole(a);
  EXPECT_NE(said.find("pieces of work of cuda:0 left no record"), std::string::npos) << said;
}

TEST_F(CudaObserve, WithoutCuptiEventsMeasureAndAWarningSaysSo) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  setenv("BRIM_FAKE_CUPTI", "refuse", 1);
  ::testing::internal::CaptureStderr();
  const Account a = measured();
  (void)measured();
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
  EXPECT_NE(said.find("[cuda] no activity records: cuptiActivityEnable says "
                      "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"),
            std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
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
  EXPECT_FALSE(second.sm_active.has_value());
  EXPECT_FALSE(second.throttled);
  EXPECT_EQ(second.clocks_held_by, std::vector<std::string>{"idle"});
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
