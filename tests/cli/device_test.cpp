// The command on virtual accelerators: one, several, none; traces; the GPU chapter's exercises.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/account.h"
#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class OnDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data");
  }
  /// Trains with `environment` ("BRIM_SIM_DEVICES=3") in front.
  Ran train(std::vector<std::string> more, const std::string& environment = "") const {
    std::vector<std::string> args = {"train", "tutorial-cnn", "--data", folder / "data"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args, environment.empty() ? "" : "export " + environment + ";");
  }
  static json result(const std::string& path) { return json::parse(slurp(path)); }
  TemporaryFolder folder;
};

TEST_F(OnDevices, OneVirtualAcceleratorTrainsAsTheCpuDoes) {
  ASSERT_EQ(train({"--json", folder / "cpu.json"}).code, 0);
  const Ran ran = train({"--device", "sim:0", "--json", folder / "sim.json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("of batch 4 on sim:0"), std::string::npos) << ran.out;
  const json cpu = result(folder / "cpu.json"), sim = result(folder / "sim.json");
  EXPECT_EQ(sim["device"], "sim:0");
  EXPECT_EQ(sim["final_loss"], cpu["final_loss"]);
  EXPECT_EQ(sim["test_loss"], cpu["test_loss"]);
  EXPECT_NEAR(sum_of(sim["account"]), 1, 1e-9);
  EXPECT_GT(sim["account"]["compute"], 0);
  EXPECT_GT(
      sim["account"]["copy_to_device"].get<double>() + sim["account"]["copy_to_host"].get<double>(),
      0);
}

TEST_F(OnDevices, SeveralShareEachBatch) {
  const Ran ran = train({"--device", "sim:all", "--batch", "6", "--json", folder / "r.json"},
                        "BRIM_SIM_DEVICES=3");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json r = result(folder / "r.json");
  EXPECT_EQ(r["device"], "sim:0,sim:1,sim:2");
  ASSERT_EQ(r["accounts"].size(), 3U);
  for (const auto& [device, account] : r["accounts"].items()) {
    EXPECT_NEAR(sum_of(account), 1, 1e-9) << device;
    EXPECT_EQ(r["recorded"][device], 1) << device;
    EXPECT_NE(ran.out.find("where the time of training went on " + device), std::string::npos);
  }
}

TEST_F(OnDevices, TheCheckerFindsNothingInTraining) {
  const Ran ran = train({"--device", "sim:0,sim:1", "--steps", "8"}, "BRIM_SIM_CHECK=1");
  EXPECT_EQ(ran.code, 0) << ran.err;
}

TEST_F(OnDevices, TracesAreWritten) {
  const std::string path = folder / "t.json";
  const Ran ran = train({"--device", "sim:1", "--steps", "4", "--trace", path});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("ui.perfetto.dev"), std::string::npos) << ran.out;
  const json trace = result(path);
  int kernels = 0, steps = 0;
  for (const auto& event : trace["traceEvents"]) {
    kernels += event["name"] == "conv2d_relu_pool" && event["pid"] != 0;
    steps += event["name"] == "step";
  }
  EXPECT_EQ(kernels, 8);  // two convolutions a step
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(trace["otherData"]["dropped_events"], 0);
  EXPECT_EQ(train({"--steps", "2", "--trace", path}).code, 0);  // on the CPU, too
  EXPECT_GT(result(path)["traceEvents"].size(), 10U);
}

TEST_F(OnDevices, BadDevicesAndOptions) {
  const auto error = [&](std::vector<std::string> more, const std::string& environment = "") {
    const Ran ran = train(std::move(more), environment);
    EXPECT_NE(ran.code, 0);
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    return ran.err;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(error({"--device", "sim:7"}), "sim:7 does not exist"));
  EXPECT_TRUE(has(error({"--device", "sim:0,sim:0"}), "stands twice"));
  EXPECT_TRUE(has(error({"--device", "sim:all"}, "BRIM_SIM_DEVICES=0"), "names no device"));
  EXPECT_TRUE(has(error({"--device", "sim:0"}, "BRIM_SIM_DEVICES=many"), "BRIM_SIM_DEVICES"));
  EXPECT_TRUE(has(error({"--device", "sim:0"}, "BRIM_SIM_MEMORY=lots"), "BRIM_SIM_MEMORY"));
  EXPECT_TRUE(has(error({"--device", "sim:0"}, "BRIM_SIM_PROFILE=h20"), "did you mean 'h200'"));
  EXPECT_TRUE(has(error({"--device", "sim:0"}, "BRIM_SIM_SLOWDOWN=-1"), "slowdown"));
  EXPECT_TRUE(has(error({"--device", "sim:0"}, "BRIM_SIM_SLOWDOWN=0x2"), "'0x2' is no number"));
  EXPECT_TRUE(has(error({"--device", "sim:0"}, "BRIM_SIM_CHECK=zzz"), "'zzz' is no switch; use 1"));
  EXPECT_TRUE(has(error({"--device", "sim:0"}, "BRIM_SIM_MEMORY=100K"), "[memory] sim:0"));
  EXPECT_TRUE(has(error({"--trace", folder.path()}), "is a folder"));
  EXPECT_TRUE(has(error({"--trace", folder / "no/such/t.json"}), "cannot be written"));
}

TEST_F(OnDevices, EnvironmentNamesThem) {
  const Ran ran = run_brim({"env"}, "export BRIM_SIM_DEVICES=1 BRIM_SIM_PROFILE=a100;");
  EXPECT_NE(ran.out.find("NVIDIA A100"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("sim:0"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("sim:1"), std::string::npos) << ran.out;
}

}  // namespace
}  // namespace brim::tests
