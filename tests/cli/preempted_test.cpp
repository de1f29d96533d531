// A machine of the cloud that goes away: the training gets SIGTERM, and SIGKILL 30 seconds later.
// The same command, started again until it is done, ends with the weights of a run that nobody
// disturbed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

class Preempted : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(folder / "data", 4000);  // a thousand steps an epoch
  }
  /// What a Job repeats, word by word.
  std::vector<std::string> command(const std::string& out) const {
    return {"train",
            "tutorial-cnn",
            "--data",
            folder / "data",
            "--epochs",
            "6",
            "--batch",
            "4",
            "--threads",
            "1",
            "--device",
            "cpu",
            "--out",
            out,
            "--resume",
            out,
            "--json",
            folder / "result.json",
            "--checkpoint-every",
            "250"};
  }
  /// Shell text that ends the command as a cloud does once `out` holds another newest checkpoint
  /// than now.
  static std::string preempts(const std::string& out) {
    const std::string newest =
        "ls " + in_quotes(out) + " 2>/dev/null | grep ^checkpoint | sort -V | tail -1";
    return "now=$(" + newest + "); " +
           signal_when(
               "[ \"$(" + newest + ")\" != \"$now\" ]",
               "TERM $p; for i in $(seq 300); do kill -0 $p 2>/dev/null || exit; sleep 0.1; "
               "done; kill -KILL");
  }
  TemporaryFolder folder;
};

TEST_F(Preempted, TheSameCommandAgainEndsWithTheSameBits) {
  const std::string planned = folder / "planned", out = folder / "run";
  ASSERT_EQ(run_brim(command(planned)).code, 0);
  constexpr int kTimes = 3;
  for (int i = 0; i < kTimes; ++i) {
    const Ran ran = run_brim(command(out), preempts(out));
    ASSERT_EQ(ran.code, 143) << i << ": " << ran.out << ran.err;  // it had time for a checkpoint
    EXPECT_NE(ran.err.find("stopped at step"), std::string::npos) << ran.err;
    EXPECT_EQ(ran.out.find("going on from") != std::string::npos, i > 0) << ran.out;
    EXPECT_FALSE(fs::exists(out + "/model.safetensors"));
  }
  const Ran last = run_brim(command(out));
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(slurp(out + "/model.safetensors"), slurp(planned + "/model.safetensors"));
}

}  // namespace
}  // namespace brim::tests
