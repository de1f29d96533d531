// `brim train` compiles its step, says so, and says why not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class CompileCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  }
};

std::vector<std::string> train(const std::vector<std::string>& more) {
  std::vector<std::string> args{"train", "tutorial-cnn", "--steps", "12", "--seed",
                                "1",     "--json",       "-"};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

json result_of(const std::vector<std::string>& more) {
  const Ran ran = run_brim(train(more));
  EXPECT_EQ(ran.code, 0) << ran.err;
  return json::parse(ran.out);
}

TEST_F(CompileCommand, TrainsCompiledUnlessToldOtherwise) {
  const json on = result_of({}), off = result_of({"--compile", "off"});
  EXPECT_EQ(on["compile"]["mode"], "compiled");
  EXPECT_EQ(on["compile"]["replays"], 12);
  EXPECT_EQ(on["compile"]["plans"], 1);
  EXPECT_TRUE(on["compile"]["reason"].is_null());
  EXPECT_EQ(off["compile"]["mode"], "eager");
  EXPECT_EQ(off["compile"]["eager_steps"], 12);
  EXPECT_EQ(off["compile"]["reason"], "switched off");
  EXPECT_NEAR(on["final_loss"].get<double>(), off["final_loss"].get<double>(), 1e-4);
}

TEST_F(CompileCommand, PassesAreSwitchedByName) {
  const json some = result_of({"--passes", "-memory,-dead_code"});
  EXPECT_EQ(some["compile"]["mode"], "compiled");
  const json all = result_of({});
  EXPECT_GT(some["compile"]["arena_bytes"], all["compile"]["arena_bytes"]);
  const Ran ran = run_brim(train({"--passes", "-memroy"}));
  EXPECT_NE(ran.code, 0);
  EXPECT_NE(ran.err.find("did you mean 'memory'?"), std::string::npos) << ran.err;
}

TEST_F(CompileCommand, ExplainsThePlan) {
  const Ran ran =
      run_brim({"train", "tutorial-cnn", "--steps", "3", "--explain", "--passes", "-dead_code"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* part : {"dead_code: off", "arena", "launches: ", "compiled steps ("})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
}

TEST_F(CompileCommand, ResumedRunsAreCompiledAsTheyBegan) {
  const TemporaryFolder folder;
  const std::string whole = folder / "whole", parts = folder / "parts";
  const std::vector<std::string> train = {"train", "tutorial-cnn", "--workers", "0"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), train.begin(), train.end());
    const Ran ran = run_brim(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran;
  };
  with({"--steps", "9", "--out", whole, "--compile", "off"});
  with({"--steps", "4", "--out", parts, "--compile", "off"});
  Ran ran = run_brim({"train", "--resume", parts, "--steps", "5", "--json", "-"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(json::parse(ran.out)["compile"]["mode"], "eager");
  EXPECT_EQ(slurp(parts + "/model.safetensors"), slurp(whole + "/model.safetensors"));
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"--compile", "on"}, {"--passes", "-softmax_cross_entropy"}}) {
    ran = run_brim({"train", "--resume", parts, "--steps", "1", other[0], other[1]});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_NE(ran.err.find("brim: warning: "), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("goes on with --compile on"), std::string::npos) << ran.err;
  }
}

TEST_F(CompileCommand, SeveralDevicesHaveAPlanEach) {
  const json r = result_of({"--device", "sim:0,sim:1"});
  EXPECT_EQ(r["compile"]["mode"], "compiled");
  EXPECT_GT(r["compile"]["replays"], 0);
}

}  // namespace
}  // namespace brim::tests
