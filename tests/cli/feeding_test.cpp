// `brim train --augment-on` and `--data-on-device`: the same training, and what was used is told.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class FeedingCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  }
  static Ran train(const std::vector<std::string>& more) {
    std::vector<std::string> args{"train", "tutorial-cnn", "--steps", "12"};
    args.insert(args.end(), more.begin(), more.end());
    return run_brim(args);
  }
};

TEST_F(FeedingCommand, ChangesNoResultAndIsInIt) {
  for (const std::string device : {"cpu", "sim:0"}) {
    const auto result_of = [&](std::vector<std::string> more) {
      more.insert(more.end(), {"--device", device, "--json", "-"});
      const Ran ran = train(more);
      EXPECT_EQ(ran.code, 0) << ran.err;
      return json::parse(ran.out);
    };
    const json host = result_of({}), bytes = result_of({"--augment-on", "device"}),
               resident = result_of({"--data-on-device"});
    EXPECT_EQ(host["input"]["augment_on"], "host");
    EXPECT_EQ(bytes["input"]["augment_on"], "device");
    EXPECT_FALSE(bytes["input"]["data_on_device"]);
    EXPECT_TRUE(resident["input"]["data_on_device"]);
    EXPECT_EQ(resident["input"]["resident_bytes"], 10000 * (3072 + 8 + 16));
    for (const json& other : {bytes, resident}) {
      EXPECT_EQ(other["final_loss"], host["final_loss"]) << device;
      EXPECT_EQ(other["test_loss"], host["test_loss"]) << device;
    }
  }
}

TEST_F(FeedingCommand, IsInTheSummary) {
  EXPECT_NE(train({}).out.find("input: pictures as floats, augmented on the host"),
            std::string::npos);
  EXPECT_NE(train({"--augment-on", "device", "--device", "sim:0"})
                .out.find("input: pictures as bytes, augmented on sim:0"),
            std::string::npos);
  EXPECT_NE(train({"--data-on-device"}).out.find("input: 10000 pictures (30960000 bytes) on cpu"),
            std::string::npos);
}

TEST_F(FeedingCommand, WhatCannotBeIsRefused) {
  const Ran small = train({"--data-on-device", "--device", "sim:0", "--memory-limit", "8M"});
  EXPECT_NE(small.code, 0);
  EXPECT_NE(small.err.find("10000 pictures of 3 x 32 x 32 take 30960000 bytes on sim:0"),
            std::string::npos)
      << small.err;
  const Ran both = train({"--data-on-device", "--augment-on", "host"});
  EXPECT_NE(both.code, 0);
  EXPECT_NE(both.err.find("leave --augment-on out"), std::string::npos) << both.err;
  EXPECT_NE(train({"--augment-on", "elsewhere"}).code, 0);
}

}  // namespace
}  // namespace brim::tests
