// CUPTI's records of CUDA devices, over a fake of it: what is recorded, when it gets into the
// account, and what is said where it cannot be.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <brim/brim.h>
#include <brim/diag/account.h>
#include <brim/diag/detail.h>
#include <brim/diag/sampling.h>
#include <brim/diag/trace.h>

#include "backend/cuda/observe_fixture.h"
#include "diag/span.h"

namespace brim {
namespace {

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
  (void)measured();  // the fake sees nodes of graphs that are captured later
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

TEST_F(CudaObserve, ACuptiWithoutRecordsOfGraphsIsToldOfOnce) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  setenv("BRIM_FAKE_CUPTI", "no graphs", 1);
  ::testing::internal::CaptureStderr();
  const Account a = measured();
  (void)measured();
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
  EXPECT_NE(said.find("cannot be chosen: cuptiActivityEnable says CUPTI_ERROR_NOT_COMPATIBLE"),
            std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(CudaObserve, NothingIsRecordedWhileNobodyMeasures) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  (void)measured();
  EXPECT_EQ(kinds(), "");
}

TEST_F(CudaObserve, RecordsOfLongRunsAreTakenInWindows) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  work();
  synchronize(gpu);
  const Accountant accountant({gpu});
  diag::Sampling sampling({gpu});
  const std::string all = kinds();
  EXPECT_NE(all, "");
  double waited = 0;  // for the loader, in parts that are recorded
  const auto part = [&](double most) {
    const bool recorded = kinds() == all;
    const auto begin = std::chrono::steady_clock::now();
    {
      const diag::Span span("loader", Cause::input);
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    if (recorded)
      waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    work();
    sampling.border(most);
  };
  part(1);
  EXPECT_EQ(kinds(), all);  // it costs no more than that
  part(0);
  EXPECT_EQ(kinds(), "");
  part(0);
  part(1);
  EXPECT_EQ(kinds(), all);
  part(1);
  synchronize(gpu);
  const double recorded = sampling.recorded(gpu);
  EXPECT_GT(recorded, 0.2);
  EXPECT_LT(recorded, 0.8);
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
  // Two of five parts are charged as the last one recorded. How much that is depends on its work.
  EXPECT_GE(waited, 0.075);
  EXPECT_GT(at(a, Cause::input), waited + 0.005);
  {
    const Accountant inner({gpu});  // wants all
    sampling.border(0);
    EXPECT_EQ(kinds(), all);
  }
  sampling.border(0);
  EXPECT_EQ(kinds(), "");
}

TEST_F(CudaObserve, RecordsThatCostLittleAreAllTaken) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  const Accountant accountant({gpu});
  diag::Sampling sampling({gpu});
  Tensor x = ones({16}, {.device = gpu});
  x.fill_(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  sampling.border();
  EXPECT_NE(kinds(), "");
  EXPECT_EQ(sampling.recorded(gpu), 1);
  for (int i = 0; i < 20'000; ++i) x.fill_(i);  // 40,000 records, 40 ms, of some 100
  synchronize(gpu);
  (void)accountant.read(gpu);
  sampling.border();
  EXPECT_EQ(kinds(), "");
}

TEST_F(CudaObserve, RecordsAreToldWhileTheDeviceWorks) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  Tensor x = ones({16}, {.device = gpu});
  synchronize(gpu);  // or that is traced, too
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
  Event done;
  done.record(Stream::current(gpu));
  (void)done.query();                                  // emulated devices work when somebody asks
  const size_t told = work_in(json_of(trace)).size();  // by a thread of CUPTI's
  EXPECT_GT(told, all / 2);
  EXPECT_LT(told, all);  // the last buffers are kept back
  synchronize(gpu);
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_EQ(work_in(json_of(trace)).size(), all);
  EXPECT_GE(at(a, Cause::input) + at(a, Cause::stolen), 0.0049);
  EXPECT_GT(at(a, Cause::compute), 0);
}

TEST_F(CudaObserve, LostRecordsAreTold) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  setenv("BRIM_FAKE_CUPTI", "dropped", 1);
  ::testing::internal::CaptureStderr();
  const Account a = measured();
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_whole(a);
  EXPECT_NE(said.find("[cuda] CUPTI dropped "), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(CudaObserve, WorkWithoutTimesIsLostByItsDevice) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  setenv("BRIM_FAKE_CUPTI", "untimed", 1);
  ::testing::internal::CaptureStderr();
  {
    const Accountant accountant({gpu, Device::cuda(1)});
    work();
    synchronize(gpu);
    expect_whole(accountant.read(gpu));
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("pieces of work of cuda:0 left no record"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(CudaObserve, CallsWithoutWorkAreTold) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  setenv("BRIM_FAKE_CUPTI", "no work", 1);
  ::testing::internal::CaptureStderr();
  expect_whole(measured());
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("but no work; the account of cuda:0 is not valid"), std::string::npos)
      << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(CudaObserve, WhatCuptiKeepsBackWhileADeviceWorksCountsLater) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  synchronize(gpu);
  const Accountant accountant({gpu, Device::cuda(1)});
  setenv("BRIM_EMULATED_BUSY", "1", 1);
  work();
  synchronize(gpu);
  const Account early = accountant.read(gpu);
  expect_whole(early);
  EXPECT_EQ(at(early, Cause::compute), 0);
  unsetenv("BRIM_EMULATED_BUSY");
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
  EXPECT_GT(at(a, Cause::copy_to_device), 0);
}

TEST_F(CudaObserve, WhatCuptiStillHasAtTheEndIsInTraces) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "needs the fake of CUPTI";
  const size_t all = work_in(traced([&] { work(); }, gpu)).size();
  const diag::Trace trace;
  {
    const Accountant accountant({gpu});
    setenv("BRIM_EMULATED_BUSY", "1", 1);
    work();
  }
  EXPECT_EQ(work_in(json_of(trace)).size(), all);
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

TEST_F(CudaObserve, EventsAreRecordedInWindowsToo) {
  if (!runtime(DeviceKind::cuda).description(0).starts_with("emulated"))
    GTEST_SKIP() << "a GPU's work is recorded by CUPTI";
  setenv("BRIM_FAKE_CUPTI", "refuse", 1);  // told before, by the test above
  work();
  synchronize(gpu);
  const Accountant accountant({gpu});
  diag::Sampling sampling({gpu});
  work();
  sampling.border(0);
  work();
  sampling.border(1);
  work();
  synchronize(gpu);
  EXPECT_LT(sampling.recorded(gpu), 1);
  const Account a = accountant.read(gpu);
  expect_whole(a);
  EXPECT_GT(at(a, Cause::compute), 0);
}

}  // namespace
}  // namespace brim
