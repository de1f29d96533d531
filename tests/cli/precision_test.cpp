// `brim train --precision`: what it says, and what it refuses.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class PrecisionCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  }
  static Ran train(const std::vector<std::string>& more) {
    std::vector<std::string> args{"train", "tutorial-cnn", "--steps", "5"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
};

TEST_F(PrecisionCommand, IsInTheResult) {
  for (const std::string precision : {"fp32", "fp16", "bf16"}) {
    const Ran ran = train({"--precision", precision, "--json", "-"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    const json result = json::parse(ran.out);
    EXPECT_EQ(result["precision"], precision);
    EXPECT_EQ(result["compile"]["mode"], "compiled");
    EXPECT_EQ(result["loss_scale"], precision == "fp16" ? json(65536.0) : json(nullptr));
  }
}

TEST_F(PrecisionCommand, IsInTheSummary) {
  const Ran half = train({"--precision", "fp16"});
  EXPECT_NE(half.out.find("on cpu in fp16, seed 0"), std::string::npos) << half.out;
  EXPECT_NE(half.out.find("loss scale 65536 at the end"), std::string::npos) << half.out;
  const Ran tf32 = train({"--precision", "tf32"});
  EXPECT_NE(tf32.out.find("tf32 only changes the matrix units of cuda devices; on cpu it is fp32"),
            std::string::npos)
      << tf32.out;
}

TEST_F(PrecisionCommand, OthersAreRefused) {
  const Ran ran = train({"--precision", "fp8"});
  EXPECT_NE(ran.code, 0);
  EXPECT_NE(ran.err.find("fp8"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("bf16"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace brim::tests
