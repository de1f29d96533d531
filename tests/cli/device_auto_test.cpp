// `--device auto`, the default: which device a run takes and what it says. GPUs are those of the
// emulation, their sensors those of the fake of NVML (tests/fakes), whose first GPU CUDA does not
// show: indices differ.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kNoGpu = "BRIM_BACKEND_PATH=/no/such/backend.so";

class DeviceAuto : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data");
  }
  Ran train(std::vector<std::string> more, const std::string& environment) const {
    std::vector<std::string> args = {"train",         "tutorial-cnn", "--data",
                                     folder / "data", "--steps",      "2"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args, "export " + environment + ";");
  }
  /// The environment of two GPUs whose NVML says `facts`; empty where they are not built.
  static std::string gpus(const std::string& facts = "") {
    const fs::path build = fs::path(brim_path()).parent_path().parent_path();
    const fs::path backend = build / "emulated/libbrim_cuda_emulated.so";
    if (!fs::exists(backend) || !fs::exists(build / "fakes/libnvidia-ml.so.1")) return "";
    return "BRIM_BACKEND_PATH=" + backend.string() +
           " BRIM_CUDA_LIBRARIES=" + (build / "fakes").string() + " " + facts;
  }
  TemporaryFolder folder;
};

void expect_first_line(const Ran& ran, const std::string& line) {
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out.substr(0, ran.out.find('\n')), line);
}

#define NEEDS_GPUS() \
  if (gpus().empty()) GTEST_SKIP() << "the emulation or the fake of NVML is not built"

TEST_F(DeviceAuto, WithoutGpuTheCpuAndWhy) {
  const Ran ran = train({"--json", folder / "r.json"}, kNoGpu);
  const std::string reason =
      "no usable GPU: BRIM_BACKEND_PATH names /no/such/backend.so, which is not there";
  expect_first_line(ran, "device cpu: " + reason);
  const json r = json::parse(slurp(folder / "r.json"));
  EXPECT_EQ(r["device"], "cpu");
  EXPECT_EQ(r["device_choice"], (json{{"asked", "auto"}, {"reason", reason}}));
}

TEST_F(DeviceAuto, VirtualAcceleratorsAreNotChosen) {
  const Ran ran = train({}, std::string(kNoGpu) + " BRIM_SIM_DEVICES=4 BRIM_SIM_PROFILE=h200");
  EXPECT_TRUE(ran.out.starts_with("device cpu: ")) << ran.out;
}

TEST_F(DeviceAuto, NamedDevicesSayWhatTheySaidBefore) {
  for (const char* device : {"cpu", "sim:1"}) {
    const Ran ran = train({"--device", device, "--json", folder / "r.json"}, "A=1");
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(ran.out.starts_with("tutorial-cnn: ")) << ran.out;
    const json r = json::parse(slurp(folder / "r.json"));
    EXPECT_EQ(r["device"], device);
    EXPECT_EQ(r["device_choice"], (json{{"asked", device}, {"reason", nullptr}}));
  }
}

TEST_F(DeviceAuto, BadNames) {
  const auto fails = [&](std::vector<std::string> args, const std::string& words) {
    const Ran ran = run_brim(args, "export BRIM_BACKEND_PATH=/no/such/backend.so;");
    EXPECT_NE(ran.code, 0) << words;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << ran.err;
    EXPECT_EQ(ran.out, "") << words;
  };
  const std::string weights = folder / "absent.safetensors";
  fails({"train", "tutorial-cnn", "--device", "autto"}, "did you mean 'auto'?");
  fails({"eval", "--weights", weights, "--device", "aut"}, "did you mean 'auto'?");
  fails({"train", "tutorial-cnn", "--device", "auto,cuda:1"}, "--device auto, alone");
  fails({"train", "tutorial-cnn", "--device", "sim:0,auto"}, "--device auto, alone");
  fails({"predict", "--weights", weights, "x.png", "--device", "auto:1"}, "did you mean 'auto'?");
  fails({"predict", "--weights", weights, "x.png", "--device", "sim:0,sim:1"}, "no device index");
  fails({"train", "tutorial-cnn", "--device", "tpu"}, "'tpu' names no device; use cpu");
  fails({"bench", "add-16", "--device", "auto"}, "use cpu, cuda:N (alias gpu:N) or sim:N");
}

TEST_F(DeviceAuto, OfTwoGpusTheOneWithTheMostFreeMemory) {
  NEEDS_GPUS();
  expect_first_line(train({}, gpus("BRIM_FAKE_NVML_USED=70,10")),
                    "device cuda:1: most free memory of 2 GPUs (70.0 GiB)");
  const Ran ran =
      train({"--json", folder / "r.json", "--device", "auto"}, gpus("BRIM_FAKE_NVML_USED=10,70"));
  expect_first_line(ran, "device cuda:0: most free memory of 2 GPUs (70.0 GiB)");
  EXPECT_NE(ran.out.find("of batch 4 on cuda:0"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("augmented on cuda:0"), std::string::npos) << ran.out;
  const json r = json::parse(slurp(folder / "r.json"));
  EXPECT_EQ(r["device"], "cuda:0");
  EXPECT_EQ(r["device_choice"],
            (json{{"asked", "auto"}, {"reason", "most free memory of 2 GPUs (70.0 GiB)"}}));
}

TEST_F(DeviceAuto, EqualMemoryGoesByLoadHeatAndIndex) {
  NEEDS_GPUS();
  expect_first_line(train({}, gpus()),
                    "device cuda:1: least busy (1 %) of 2 GPUs with the most free memory (60.0 "
                    "GiB)");
  expect_first_line(train({}, gpus("BRIM_FAKE_NVML_LOAD=0,0")),
                    "device cuda:1: coolest (30 C) of 2 GPUs with the most free memory (60.0 GiB), "
                    "equally busy");
  expect_first_line(train({}, gpus("BRIM_FAKE_NVML_LOAD=0,0 BRIM_FAKE_NVML_TEMPERATURE=30,30")),
                    "device cuda:0: first of 2 GPUs with the most free memory (60.0 GiB)");
}

TEST_F(DeviceAuto, WithoutNvmlTheFirst) {
  NEEDS_GPUS();
  expect_first_line(train({}, gpus("BRIM_FAKE_NVML=refuse")),
                    "device cuda:0: first of 2 GPUs whose free memory is unknown: nvmlInit says "
                    "Driver Not Loaded");
  expect_first_line(train({}, gpus("BRIM_FAKE_NVML_USED=20,-")),
                    "device cuda:0: the only one of 2 GPUs whose free memory is known (60.0 GiB)");
}

TEST_F(DeviceAuto, AGpuWhoseDriverHangsIsNotWaitedFor) {
  NEEDS_GPUS();
  expect_first_line(train({}, gpus("BRIM_FAKE_NVML_LOAD=1,hangs")),
                    "device cuda:0: the only one of 2 GPUs whose free memory is known (60.0 GiB)");
}

TEST_F(DeviceAuto, TheOnlyGpuIsTaken) {
  NEEDS_GPUS();
  expect_first_line(train({}, gpus("BRIM_EMULATED_COUNT=1")), "device cuda:0: the only GPU");
  expect_first_line(
      train({}, gpus("BRIM_EMULATED_COUNT=0")),
      "device cpu: no usable GPU: the NVIDIA driver shows no GPU; see what nvidia-smi "
      "and CUDA_VISIBLE_DEVICES say");
}

/// Another process has cuda:0 for itself, so every call that would make a context there fails.
TEST_F(DeviceAuto, GpusThatAreNotChosenAreNotTouched) {
  NEEDS_GPUS();
  expect_first_line(
      train({"--memory-limit", "1G"}, gpus("BRIM_FAKE_NVML_USED=70,10 BRIM_EMULATED_TAKEN=0")),
      "device cuda:1: most free memory of 2 GPUs (70.0 GiB)");
}

TEST_F(DeviceAuto, AGpuThatFailsIsAnErrorAndNoFallback) {
  NEEDS_GPUS();
  for (const char* trouble : {"BRIM_EMULATED_TAKEN=1", "BRIM_EMULATED_LOST=20"}) {
    const Ran ran = train({"--compile", "off"}, gpus(trouble));
    EXPECT_EQ(ran.code, 1) << trouble;
    // Without CUPTI, work that the lost GPU left without a record is warned of before.
    const size_t error = ran.err.find("brim: error: ");
    ASSERT_NE(error, std::string::npos) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin() + static_cast<std::ptrdiff_t>(error), ran.err.end(), '\n'),
              1)
        << ran.err;
    EXPECT_TRUE(ran.err.ends_with("; to do without the GPU: --device cpu\n")) << ran.err;
    const Ran named = train({"--compile", "off", "--device", "cuda:1"}, gpus(trouble));
    EXPECT_EQ(named.code, 1);
    EXPECT_EQ(named.err.find("--device cpu"), std::string::npos) << named.err;
  }
  const Ran full = train({"--memory-limit", "1K"}, gpus());
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.err.find("[memory] cuda:1"), std::string::npos) << full.err;
  EXPECT_EQ(full.err.find("--device cpu"), std::string::npos) << full.err;
}

TEST_F(DeviceAuto, EvalAndPredictChooseTooAndKeepTheirOutputClean) {
  NEEDS_GPUS();
  const std::string out = folder / "run";
  ASSERT_EQ(train({"--device", "cpu", "--out", out}, "A=1").code, 0);
  const std::string weights = out + "/model.safetensors";
  const std::string environment = "export " + gpus("BRIM_FAKE_NVML_USED=70,10") + ";";
  std::vector<std::string> eval = {"eval", "--weights", weights};
  Ran ran = run_brim(eval, environment);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(("\n" + ran.out).find("\naccuracy on "), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("most free memory"), std::string::npos) << ran.out;
  eval.insert(eval.end(), {"--json", "-"});
  ran = run_brim(eval, environment);
  const json evaluated = json::parse(ran.out);
  EXPECT_EQ(evaluated["device"], "cuda:1");
  EXPECT_EQ(evaluated["device_choice"]["reason"], "most free memory of 2 GPUs (70.0 GiB)");

  const std::string picture = folder / "p.png";
  write_pixel_png(picture);
  std::vector<std::string> predict = {"predict", "--weights", weights, picture};
  ran = run_brim(predict, environment);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with(picture + ": ")) << ran.out;
  EXPECT_EQ(ran.err, "");
  predict.insert(predict.end(), {"--json", "-"});
  const json predicted = json::parse(run_brim(predict, environment).out);
  EXPECT_EQ(predicted["device"], "cuda:1");
  EXPECT_EQ(predicted["device_choice"]["asked"], "auto");
  ran = run_brim({"predict", "--weights", weights, picture},
                 "export " + gpus("BRIM_EMULATED_TAKEN=1") + ";");
  EXPECT_EQ(ran.code, 1);
  EXPECT_TRUE(ran.err.ends_with("; to do without the GPU: --device cpu\n")) << ran.err;
}

/// Standard error is a terminal that script(1) makes; standard output is a file all the same.
TEST_F(DeviceAuto, TerminalsShowWhatPredictChose) {
  if (std::system("script -qec true /dev/null >/dev/null 2>&1 </dev/null") != 0)
    GTEST_SKIP() << "there is no script(1), or it has no terminal to give";
  const auto typed = [&](const std::string& options) {
    const std::string command = "export " + std::string(kNoGpu) + "; " + in_quotes(brim_path()) +
                                " predict --weights absent.pth x.png " + options + " >" +
                                in_quotes(folder / "out");
    const std::string line = "script -qec " + in_quotes(command) + " /dev/null >" +
                             in_quotes(folder / "terminal") + " </dev/null";
    EXPECT_NE(std::system(line.c_str()), 0) << "there are no such weights";
    EXPECT_EQ(slurp(folder / "out"), "");
    return slurp(folder / "terminal");
  };
  EXPECT_TRUE(typed("").starts_with("device cpu: no usable GPU: "));
  EXPECT_TRUE(typed("--device cpu").starts_with("brim: error: "));
  EXPECT_TRUE(typed("--json -").starts_with("brim: error: "));
}

TEST_F(DeviceAuto, AResumedRunStaysWhereItWas) {
  NEEDS_GPUS();
  const auto begin = [&](const std::string& name, const std::string& device) {
    const Ran ran = train({"--out", folder / name, "--device", device}, gpus());
    ASSERT_EQ(ran.code, 0) << ran.err;
  };
  const auto resume = [&](const std::string& name, const std::string& facts) {
    return run_brim({"train", "--resume", folder / name, "--steps", "1"},
                    "export " + gpus(facts) + ";");
  };
  begin("cpu", "cpu");
  expect_first_line(resume("cpu", ""), "device cpu: where the run was before");
  begin("sim", "sim:0,sim:1");
  expect_first_line(resume("sim", ""), "device sim:0,sim:1: where the run was before");
  // A damaged checkpoint is passed over, for its devices too.
  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(folder / "sim"))
    if (entry.path().filename().string().starts_with("checkpoint-"))
      checkpoints.push_back(entry.path());
  std::sort(checkpoints.begin(), checkpoints.end());
  ASSERT_EQ(checkpoints.size(), 2U);
  fs::resize_file(checkpoints.back() / "state.json", 20);
  expect_first_line(resume("sim", ""), "device sim:0,sim:1: where the run was before");
  begin("gpu", "cuda:0");
  Ran ran = resume("gpu", "BRIM_FAKE_NVML_USED=70,10");
  expect_first_line(ran, "device cuda:1: most free memory of 2 GPUs (70.0 GiB)");
  EXPECT_EQ(ran.err, "");
  ran = resume("gpu", "BRIM_EMULATED_COUNT=0");
  EXPECT_TRUE(ran.out.starts_with("device cpu: no usable GPU: ")) << ran.out;
  EXPECT_NE(ran.err.find("goes on on cpu; to stay there: --device cuda:"), std::string::npos)
      << ran.err;
  // A folder without a checkpoint is begun in as a new run.
  ran = train({"--out", folder / "new", "--resume", folder / "new"}, gpus());
  EXPECT_TRUE(ran.out.starts_with("device cuda:1: ")) << ran.out;
}

}  // namespace
}  // namespace brim::tests
