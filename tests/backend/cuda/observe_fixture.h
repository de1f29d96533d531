// What tests of observing CUDA devices share. They run on GPUs, over the emulation with CUDA
// events, and over the emulation with fakes of CUPTI and NVML (BRIM_CUDA_LIBRARIES), which some
// need.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include <brim/brim.h>
#include <brim/diag/account.h>
#include <brim/diag/trace.h>

#include "core/runtime.h"

namespace brim {

using diag::Account;
using diag::Accountant;
using diag::Cause;

inline double at(const Account& a, Cause cause) { return a.seconds[static_cast<size_t>(cause)]; }

class CudaObserve : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Device::count(DeviceKind::cuda) == 0)
      GTEST_SKIP() << "no GPU: " << runtime(DeviceKind::cuda).why_absent();
  }
  void TearDown() override {
    unsetenv("BRIM_FAKE_CUPTI");
    unsetenv("BRIM_EMULATED_LOST");
    unsetenv("BRIM_EMULATED_BUSY");
  }
  /// The fakes stand in the place of NVIDIA's libraries.
  static bool faked(const char* soname) {
    const char* folder = std::getenv("BRIM_CUDA_LIBRARIES");
    return folder && std::filesystem::path(folder).filename() == "fakes" &&
           std::filesystem::exists(std::filesystem::path(folder) / soname);
  }
  /// Some kernels and copies both ways.
  void work() const {
    Tensor x = zeros({1 << 13}).to(gpu);
    for (int i = 0; i < 10; ++i) x = relu(x + 1);
    EXPECT_EQ(sum(x).item(), 10 * (1 << 13));
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

inline nlohmann::json json_of(const diag::Trace& trace) {
  std::string text;
  trace.write([&](std::string_view piece) { text += piece; });
  return nlohmann::json::parse(text);
}

inline nlohmann::json traced(const std::function<void()>& work, Device device) {
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
inline std::vector<std::string> work_in(const nlohmann::json& trace) {
  int64_t process = -1;
  for (const auto& e : trace["traceEvents"])
    if (e["ph"] == "M" && e["name"] == "process_name" && e["args"]["name"] == "cuda:0")
      process = e["pid"];
  std::vector<std::string> names;
  for (const auto& e : trace["traceEvents"])
    if (e["ph"] == "X" && e["pid"] == process) names.push_back(e["name"]);
  return names;
}

}  // namespace brim
