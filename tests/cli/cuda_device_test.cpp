// What the command says where CUDA cannot be used: one line, with the cure, and an exit code.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/run_brim.h"

namespace brim::testing {
namespace {

namespace fs = std::filesystem;

class OnCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data");
  }
  /// The one line that training on `device` ends with, under `environment`.
  std::string error(const std::string& device, const std::string& environment,
                    std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"train",         "tutorial-cnn", "--data",
                                     folder / "data", "--device",     device};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_brim(args, "export " + environment + ";");
    EXPECT_NE(ran.code, 0) << environment;
    EXPECT_LT(ran.code, 128) << environment;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    return ran.err;
  }
  /// BRIM_BACKEND_PATH for the emulation; empty where it was not built.
  static std::string emulation() {
    const fs::path path =
        fs::path(brim_path()).parent_path().parent_path() / "emulated/libbrim_cuda_emulated.so";
    return fs::exists(path) ? "BRIM_BACKEND_PATH=" + path.string() : "";
  }
  TemporaryFolder folder;
};

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
}

TEST_F(OnCuda, BackendsThatAreNotThere) {
  const std::string text = error("cuda:0", "BRIM_BACKEND_PATH=/no/such/backend.so");
  expect_has(text, "cuda:0 is not available");
  expect_has(text, "BRIM_BACKEND_PATH names /no/such/backend.so, which is not there");
  expect_has(text, "brim env");
  expect_has(error("cuda:all", "BRIM_BACKEND_PATH=/no/such/backend.so"), "is not there");
  expect_has(error("cuda:0", "BRIM_BACKEND_PATH=" + (folder / "data")), "libbrim_cuda.so");
}

TEST_F(OnCuda, BackendsThatAreNoLibrary) {
  std::ofstream(folder / "backend.so") << "no library";
  const std::string text = error("gpu:0", "BRIM_BACKEND_PATH=" + (folder / "backend.so"));
  expect_has(text, "does not open");
  expect_has(text, "brim env");
  const Ran env = run_brim({"env"}, "export BRIM_BACKEND_PATH=" + (folder / "backend.so") + ";");
  EXPECT_EQ(env.code, 0);
  expect_has(env.out, "does not open");
}

TEST_F(OnCuda, LibrariesThatAreNoBackend) {
  const fs::path library = fs::path(brim_path()).parent_path().parent_path() / "lib/libbrim.so";
  if (!fs::exists(library)) GTEST_SKIP() << library << " is not there";
  expect_has(error("cuda:0", "BRIM_BACKEND_PATH=" + library.string()), "is no CUDA backend");
}

TEST_F(OnCuda, DriversWithoutGpuOrTooOld) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  expect_has(error("cuda:0", backend + " BRIM_EMULATED_COUNT=0"), "the NVIDIA driver shows no GPU");
  const std::string old = error("cuda:0", backend + " BRIM_EMULATED_COUNT=-1");
  expect_has(old, "the NVIDIA driver is older than brim's CUDA runtime");
  expect_has(old, "install driver 580");
}

TEST_F(OnCuda, IndicesAndMemory) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  expect_has(error("cuda:2", backend), "cuda:2 does not exist: this process has 2 cuda device(s)");
  expect_has(error("cuda:0", backend + " BRIM_EMULATED_MEMORY=1000"), "[memory] cuda:0");
  const std::string limited = error("cuda:0", backend, {"--memory-limit", "1K"});
  expect_has(limited, "[memory] cuda:0");
  expect_has(limited, "--memory-limit");
}

TEST_F(OnCuda, EnvironmentNamesTheDevices) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  const Ran ran = run_brim({"env"}, "export " + backend + ";");
  EXPECT_EQ(ran.code, 0);
  expect_has(ran.out, "cuda:0   emulated GPU");
  expect_has(ran.out, "cuda:1   emulated GPU");
}

}  // namespace
}  // namespace brim::testing
