// What the command says where CUDA cannot be used: one line, with the cure, and an exit code.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/run_brim.h"

namespace brim::tests {
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

TEST_F(OnCuda, BackendsOfAnotherBrim) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  std::string library = slurp(backend.substr(backend.find('=') + 1));
  const std::string prefix = "brim_cuda_interface_";
  const size_t at = library.find(prefix);
  ASSERT_NE(at, std::string::npos);
  library.replace(at + prefix.size(), 5, "9_9_9");
  std::ofstream(folder / "libbrim_cuda.so", std::ios::binary) << library;
  const std::string path = "BRIM_BACKEND_PATH=" + (folder / "libbrim_cuda.so");
  expect_has(error("cuda:0", path), "libbrim_cuda.so was built with another version of brim than");
  const Ran env = run_brim({"env"}, "export " + path + ";");
  expect_has(env.out, "build and install both together");
}

TEST_F(OnCuda, DriversWithoutGpuOrTooOld) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  expect_has(error("cuda:0", backend + " BRIM_EMULATED_COUNT=0"), "the NVIDIA driver shows no GPU");
  const std::string old = error("cuda:0", backend + " BRIM_EMULATED_COUNT=-1");
  expect_has(old, "the NVIDIA driver is older than brim's CUDA runtime");
  expect_has(old, "install driver 580");
}

TEST_F(OnCuda, GpusThatAreNotReady) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  const auto meets = [&](const char* count) {
    return error("cuda:0", backend + " BRIM_EMULATED_COUNT=" + count);
  };
  expect_has(meets("-802"), "systemctl start nvidia-fabricmanager");
  expect_has(meets("-803"), "reboot, or in a container use the host's driver libraries");
  expect_has(meets("-805"), "see what nvidia-smi and dmesg say");
}

TEST_F(OnCuda, OtherGpusMayBeTaken) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  const Ran ran = run_brim({"train", "tutorial-cnn", "--data", folder / "data", "--device",
                            "cuda:1", "--steps", "3", "--workers", "2"},
                           "export " + backend + " BRIM_EMULATED_TAKEN=0;");
  EXPECT_EQ(ran.code, 0) << ran.err;
  expect_has(error("cuda:0", backend + " BRIM_EMULATED_TAKEN=0"), "cudaErrorDevicesUnavailable");
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

/// The Xid of a real one: after so many pieces of work every call fails. Eager steps, whose number
/// of launches does not depend on what plans fuse.
TEST_F(OnCuda, AGpuLostAmidTrainingLeavesACheckpointToGoOnFrom) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  const auto train = [&](const std::string& environment, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"train", "--data", folder / "data", "--device", "cuda:0", "--compile", "off"});
    return run_brim(more, "export " + environment + ";");
  };
  const std::vector<std::string> recipe = {"tutorial-cnn", "--epochs", "1", "--checkpoint-every",
                                           "4"};
  const auto into = [&](const std::string& out) {
    std::vector<std::string> args = recipe;
    args.insert(args.end(), {"--out", folder / out});
    return args;
  };
  ASSERT_EQ(train(backend, into("whole")).code, 0);

  const Ran lost = train(backend + " BRIM_EMULATED_LOST=260", into("lost"));
  EXPECT_EQ(lost.code, 1);
  const size_t error_at = lost.err.find("brim: error: ");
  EXPECT_EQ(
      std::count(lost.err.begin() + static_cast<std::ptrdiff_t>(error_at), lost.err.end(), '\n'), 1)
      << lost.err;
  expect_has(lost.err, "work queued on cuda:0 failed");
  expect_has(lost.err, "Xid");
  expect_has(lost.err, "is kept, to go on: brim train --resume " + (folder / "lost"));
  EXPECT_FALSE(fs::exists(folder / "lost/model.safetensors"));

  const Ran resumed = train(backend, {"--resume", folder / "lost"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  expect_has(resumed.out, "going on from");
  EXPECT_EQ(slurp(folder / "lost/model.safetensors"), slurp(folder / "whole/model.safetensors"));
}

TEST_F(OnCuda, OutOfMemoryAtTheEvaluationLeavesWhatWasTrained) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  write_tiny_cifar(folder / "data", 12, 100);  // tests go in batches of 100: 1.2 MB
  const std::string text = error("cuda:0", backend + " BRIM_EMULATED_MEMORY=1500000",
                                 {"--epochs", "1", "--out", folder / "run"});
  expect_has(text, "[memory] cuda:0 has no room for");
  expect_has(text, "largest live tensors");
  expect_has(text, "smaller batch");
  EXPECT_TRUE(fs::exists(folder / "run/model.safetensors"));
}

TEST_F(OnCuda, OutOfMemoryAmidTrainingNamesTheCheckpoint) {
  const std::string backend = emulation();
  if (backend.empty()) GTEST_SKIP() << "the emulation is not built";
  const Ran first = run_brim({"train", "tutorial-cnn", "--data", folder / "data", "--steps", "2",
                              "--out", folder / "run"});
  ASSERT_EQ(first.code, 0) << first.err;
  for (const char* bytes : {"100000", "700000"}) {  // not even the network fits, or all but a step
    const Ran ran =
        run_brim({"train", "--resume", folder / "run", "--device", "cuda:0", "--epochs", "1"},
                 "export " + backend + " BRIM_EMULATED_MEMORY=" + bytes + ";");
    EXPECT_EQ(ran.code, 1);
    expect_has(ran.err, "[memory] cuda:0 has no room for");
    expect_has(ran.err, "is kept, to go on: brim train --resume " + (folder / "run"));
  }
}

TEST_F(OnCuda, EnvironmentSaysWhatIsWrongWithCudnn) {
  fs::create_directories(folder / "libraries");
  std::ofstream(folder / "libraries/libcudnn.so.9") << "no library";
  const Ran ran =
      run_brim({"env"}, "export BRIM_CUDA_LIBRARIES=" + in_quotes(folder / "libraries") + ";");
  EXPECT_EQ(ran.code, 0);
  const size_t begin = ran.out.find("cuDNN");
  ASSERT_NE(begin, std::string::npos) << ran.out;
  const std::string line = ran.out.substr(begin, ran.out.find('\n', begin) - begin);
  expect_has(line, "broken");
  expect_has(line, "libraries/libcudnn.so.9");
  expect_has(line, "does not open");
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
}  // namespace brim::tests
