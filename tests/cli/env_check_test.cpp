// `brim env --check`: the exit code, the lines and the JSON, with the real devices of this machine
// and with emulated GPUs. What it finds on other machines: tests/command/machine_check_test.cpp.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

TEST(EnvCheck, IsReadyForTheCpu) {
  const TemporaryFolder folder;
  const Ran ran =
      run_brim({"env", "--check", "--device", "cpu", "--out", folder / "run", "--data",
                folder.path(), "--memory", "1M", "--host-memory", "1M", "--disk", "1M"});
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  for (const char* part : {"ok      CPU", "a product in fp32 is right", "ok      output",
                           "ok      data", "ready for --device cpu --precision fp32\n"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << " in " << ran.out;
  EXPECT_TRUE(fs::is_empty(folder.path()));  // it leaves nothing behind
}

TEST(EnvCheck, SaysWhatIsMissing) {
  const Ran ran = run_brim({"env", "--check", "--device", "cuda:all", "--precision", "bf16",
                            "--out", "/dev/null", "--json"},
                           "export BRIM_BACKEND_PATH=/no/such/backend.so; ");
  EXPECT_EQ(ran.code, 1) << ran.out << ran.err;
  const auto found = nlohmann::json::parse(ran.out);
  EXPECT_FALSE(found["ready"].get<bool>());
  size_t failed = 0;
  for (const auto& check : found["checks"]) {
    failed += check["state"] == "failed";
    EXPECT_EQ(check["cure"].is_null(), check["state"] == "ok") << check;
  }
  EXPECT_GE(failed, 2u) << found;  // the GPU, and a file for a folder
  EXPECT_EQ(run_brim({"env", "--check", "--device", "sim:0", "--memory", "900T"}).code, 1);
}

TEST(EnvCheck, TriesEmulatedGpus) {
  const fs::path backend =
      fs::path(brim_path()).parent_path().parent_path() / "emulated/libbrim_cuda_emulated.so";
  if (!fs::exists(backend)) GTEST_SKIP() << "there is no emulation";
  const std::string before = "export BRIM_BACKEND_PATH=" + backend.string() + "; ";
  const std::vector<std::string> args = {"env",      "--check",     "--device",
                                         "cuda:all", "--precision", "bf16"};
  const Ran ran = run_brim(args, before);
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("ok      cuda:1"), std::string::npos) << ran.out;
  for (const std::string fault :
       {"export BRIM_EMULATED_COUNT=0; ", "export BRIM_EMULATED_COUNT=-1; ",
        "export BRIM_EMULATED_LOST=1; "}) {
    const Ran bad = run_brim(args, before + fault);
    EXPECT_EQ(bad.code, 1) << fault << bad.out << bad.err;
    EXPECT_NE(bad.out.find("FAILED"), std::string::npos) << fault << bad.out;
    EXPECT_NE(bad.out.find("not ready"), std::string::npos) << fault << bad.out;
  }
}

TEST(EnvCheck, RefusesWhatHasNoMeaning) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"env", "--memory", "2G"},
                                             {"env", "--check", "--dist"},
                                             {"env", "--check", "--memory", "much"},
                                             {"env", "--check", "--precision", "fp7"}}) {
    const Ran ran = run_brim(args);
    EXPECT_EQ(ran.code, 2) << ran.out << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

}  // namespace
}  // namespace brim::tests
