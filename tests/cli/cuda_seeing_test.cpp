// What `brim train` tells of a cuda device: its account, its sensors, a trace, ranges for
// profilers. Over the emulation, with fakes of NVIDIA's libraries (tests/fakes).
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/account.h"
#include "cli/run_brim.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

class CudaSeeing : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    build = fs::path(brim_path()).parent_path().parent_path();
    if (!fs::exists(build / "emulated/libbrim_cuda_emulated.so"))
      GTEST_SKIP() << "the emulation is not built";
    write_tiny_cifar(folder / "data");
  }
  /// 6 steps on cuda:0.
  Ran train(std::vector<std::string> more, const std::string& environment = "") const {
    std::vector<std::string> args = {
        "train",  "tutorial-cnn", "--data", folder / "data", "--device",
        "cuda:0", "--batch",      "2",      "--steps",       "6"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args, "export BRIM_BACKEND_PATH=" + backend() + " " + environment + ";");
  }
  std::string backend() const { return (build / "emulated/libbrim_cuda_emulated.so").string(); }
  std::string fakes() const { return "BRIM_CUDA_LIBRARIES=" + (build / "fakes").string(); }
  bool faked(const char* soname) const { return fs::exists(build / "fakes" / soname); }
  std::string text_of(const std::string& name) const {
    std::ifstream in(folder / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  TemporaryFolder folder;
  fs::path build;
};

TEST_F(CudaSeeing, TopMarksACardWhoseDriverHangsAndReadsTheOther) {
  if (!faked("libnvidia-ml.so.1")) GTEST_SKIP() << "NVML's fake is not built";
  const Ran ran = run_brim({"top", "--json"}, "export BRIM_FAKE_NVML_LOAD=hangs,20 " + fakes() +
                                                  " BRIM_BACKEND_PATH=" + backend() + ";");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto gpus = nlohmann::json::parse(ran.out)["gpus"];
  ASSERT_EQ(gpus.size(), 2U) << ran.out;
  EXPECT_EQ(gpus[0]["answers"], false);
  EXPECT_EQ(gpus[0]["utilisation"], nullptr);
  EXPECT_EQ(gpus[1]["answers"], true);
  EXPECT_EQ(gpus[1]["utilisation"], 0.2);
}

TEST_F(CudaSeeing, AccountsAddUpByEventsAndByCupti) {
  for (const std::string& environment : {std::string(), fakes()}) {
    const Ran ran = train({"--json", folder / "out.json"}, environment);
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_NE(ran.out.find("where the time of training went on cuda:0"), std::string::npos);
    EXPECT_NE(ran.out.find("compute"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("100.0 %"), std::string::npos) << ran.out;
    const auto json = nlohmann::json::parse(text_of("out.json"));
    const auto& account = json["accounts"]["cuda:0"];
    EXPECT_NEAR(sum_of(account), 1, 1e-6) << account;
    EXPECT_GT(account["compute"].get<double>(), 0);
    const double recorded = json["recorded"]["cuda:0"];
    EXPECT_GT(recorded, 0);
    EXPECT_LE(recorded, 1);
    EXPECT_EQ(ran.out.find("of this time there are records") == std::string::npos, recorded == 1)
        << ran.out;
  }
}

TEST_F(CudaSeeing, SensorsAreToldAndKept) {
  if (!faked("libnvidia-ml.so.1")) GTEST_SKIP() << "the fake of NVML is not built";
  const Ran ran =
      train({"--out", folder / "run", "--monitor", "0.01", "--json", folder / "out.json"}, fakes());
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("cuda:0: busy 97 %, SMs 84 %, tensor units 41 %, 20.0 of 80.0 GiB, "
                         "698 of 700 W, 64 C, 1485 MHz, throttled 100 % of the time (power cap, "
                         "heat (hardware))"),
            std::string::npos)
      << ran.out;
  const auto json = nlohmann::json::parse(text_of("out.json"));
  EXPECT_EQ(json["monitor"]["cuda:0"]["power_w"], 698.5);
  EXPECT_NEAR(json["monitor"]["cuda:0"]["energy_j"].get<double>(),
              7 * (json["monitor"]["readings"].get<int>() - 1), 1e-6);
  EXPECT_GE(json["monitor"]["readings"], 1);
  EXPECT_GT(json["energy"]["joules"]["cuda:0"], 0);
  EXPECT_GT(json["energy"]["joules_per_sample"], 0);
  EXPECT_NE(ran.out.find("J on cuda:0"), std::string::npos) << ran.out;
  EXPECT_GE(json["monitor"]["host"]["core_load"].size(), 1U);
  std::ifstream lines(folder / "run/monitor.jsonl");
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto reading = nlohmann::json::parse(line);
    EXPECT_GT(reading["time"], 1e9);
    EXPECT_EQ(reading["cuda:0"]["temperature_c"], 64);
  }
  EXPECT_EQ(count, json["monitor"]["readings"].get<int>());
}

TEST_F(CudaSeeing, WithoutSensorsTheHostIsToldAlone) {
  if (!faked("libnvidia-ml.so.1")) GTEST_SKIP() << "the fake of NVML is not built";
  const Ran ran = train({"--json", folder / "out.json"}, fakes() + " BRIM_FAKE_NVML=refuse");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.find("cuda:0: busy"), std::string::npos);
  const auto json = nlohmann::json::parse(text_of("out.json"));
  EXPECT_EQ(json["monitor"]["cuda:0"]["error"], "nvmlInit says Driver Not Loaded");
  EXPECT_GE(json["monitor"]["host"]["load"], 0);
  const Ran off = train({"--monitor", "0", "--json", folder / "off.json"}, fakes());
  ASSERT_EQ(off.code, 0) << off.err;
  EXPECT_TRUE(nlohmann::json::parse(text_of("off.json"))["monitor"].is_null());
  EXPECT_NE(train({"--monitor", "-1"}).code, 0);
  EXPECT_NE(train({"--monitor", "0.001"}).err.find("use 0.01 or more"), std::string::npos);
}

TEST_F(CudaSeeing, TracesNameKernels) {
  if (!faked("libcupti.so.13")) GTEST_SKIP() << "the fake of CUPTI is not built";
  const Ran ran = train({"--trace", folder / "trace.json"}, fakes());
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err.find("no activity records"), std::string::npos) << ran.err;
  const std::string text = text_of("trace.json");
  EXPECT_NE(text.find("\"cuda:0\""), std::string::npos);
  EXPECT_NE(text.find("unary_kernel<float, Relu>"), std::string::npos);
}

TEST_F(CudaSeeing, ProfilersSeeRangesOfOpsAndSteps) {
  if (!faked("libnvtx_tool.so")) GTEST_SKIP() << "the tool for NVTX is not built";
  const Ran ran = train({"--compile", "off"},
                        "NVTX_INJECTION64_PATH=" + (build / "fakes/libnvtx_tool.so").string() +
                            " BRIM_NVTX_LOG=" + (folder / "ranges"));
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::ifstream lines(folder / "ranges");
  int depth = 0, steps = 0, inside = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line == "push step") ++steps;
    if (line == "push conv2d" && depth > 0) ++inside;
    depth += line == "pop" ? -1 : 1;
    EXPECT_GE(depth, 0);
  }
  EXPECT_EQ(steps, 6);
  EXPECT_GE(inside, 12);  // two convolutions in each step
}

}  // namespace
}  // namespace brim::tests
