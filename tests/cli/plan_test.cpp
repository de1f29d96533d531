// `brim plan`: what fits into a device's memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_brim.h"

namespace brim::tests {
namespace {

using nlohmann::json;

Ran plan(std::vector<std::string> more) {
  std::vector<std::string> args = {"plan", "vgg11", "--size", "64"};
  args.insert(args.end(), more.begin(), more.end());
  return run_brim(args);
}

TEST(PlanCommand, TellsWhatFits) {
  const std::vector<std::string> options{"--batch", "64,768", "--limit", "2G,3G", "--device", "t4"};
  const Ran text = plan(options);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("simulated: vgg11, fp32, on NVIDIA T4; no device was used"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("3.0 GiB: batches of up to "), std::string::npos) << text.out;

  std::vector<std::string> as_json = options;
  as_json.insert(as_json.end(), {"--json", "-"});
  const json found = json::parse(plan(as_json).out);
  EXPECT_TRUE(found["simulated"].get<bool>());
  ASSERT_EQ(found["rows"].size(), 4u);
  for (const json& row : found["rows"]) {
    ASSERT_TRUE(row["fits"].get<bool>()) << row;
    EXPECT_LE(row["memory_bytes"], row["limit_bytes"]) << row;
    EXPECT_GT(row["step_s"], 0);
    int64_t offloaded = 0;
    if (row.contains("tensors"))
      for (const json& t : row["tensors"])
        if (t["choice"] == "offload") offloaded += t["bytes"].get<int64_t>();
    EXPECT_EQ(offloaded > 0, row["host_bytes"] > 0) << row;
  }
  EXPECT_FALSE(found["rows"][0].contains("tensors"));  // it fits as it is
  ASSERT_TRUE(found["rows"][1].contains("tensors"));
  EXPECT_GT(found["rows"][1]["temporaries_before_bytes"], found["rows"][1]["temporaries_bytes"]);
  ASSERT_EQ(found["largest"].size(), 2u);
  EXPECT_GE(found["largest"][0]["batch"], 768);
  EXPECT_GT(found["largest"][1]["batch"], found["largest"][0]["batch"]);
}

TEST(PlanCommand, ExplainsEachTensor) {
  const Ran ran = plan({"--batch", "768", "--limit", "2G", "--device", "t4", "--explain"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("choice"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("there is room for it"), std::string::npos) << ran.out;
  const bool is_moved = ran.out.find("offload ") != std::string::npos;
  EXPECT_TRUE(is_moved || ran.out.find("recompute ") != std::string::npos) << ran.out;
}

TEST(PlanCommand, MovesNoMoreThanTheHostMayHold) {
  const auto row = [](const char* host) {
    return json::parse(plan({"--batch", "768", "--limit", "2G", "--device", "t4", "--passes",
                             "-recompute", "--host-limit", host, "--json", "-"})
                           .out)["rows"][0];
  };
  const json much = row("8G");
  ASSERT_TRUE(much["fits"].get<bool>()) << much;
  EXPECT_GT(much["host_bytes"], 64 << 20);
  EXPECT_GE(much["link_bound_s"], 0);
  const double bound = much["step_bound_s"];
  EXPECT_GE(bound, 0);
  EXPECT_GE(much["predicted_s"], much["predicted_before_s"].get<double>() + bound);
  EXPECT_FALSE(row("64M")["fits"].get<bool>());
  const Ran ran = run_brim({"plan", "resnet50", "--batch", "64", "--limit", "2G", "--device",
                            "h100", "--host-limit", "1M"});
  EXPECT_NE(ran.out.find("more of the host (--host-limit) may help"), std::string::npos) << ran.out;
}

TEST(PlanCommand, ComparesPolicies) {
  const auto row = [](const char* policy) {
    return json::parse(plan({"--batch", "768", "--limit", "2G", "--device", "t4", "--policy",
                             policy, "--json", "-"})
                           .out)["rows"][0];
  };
  const json shortest = row("shortest"), vdnn = row("vdnn-all");
  EXPECT_GT(row("in-turn")["step_s"], shortest["step_s"]);
  ASSERT_TRUE(vdnn["fits"].get<bool>()) << vdnn;
  EXPECT_GT(vdnn["step_s"], shortest["step_s"]);
  EXPECT_GT(vdnn["exposed_copies_s"], 0);
}

TEST(PlanCommand, MovesNothingByVdnnBeyondTheHostsLimit) {
  const std::vector<std::string> options{"--batch",  "64",       "--device",     "t4",
                                         "--policy", "vdnn-all", "--host-limit", "1M"};
  const Ran text = plan(options);
  EXPECT_NE(text.out.find("+0.0 %"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("nothing is moved: vdnn-all moves "), std::string::npos) << text.out;
  std::vector<std::string> as_json = options;
  as_json.insert(as_json.end(), {"--json", "-"});
  const json row = json::parse(plan(as_json).out)["rows"][0];
  EXPECT_TRUE(row["fits"].get<bool>()) << row;
  EXPECT_TRUE(row["host_is_short"].get<bool>()) << row;
  EXPECT_EQ(row["predicted_s"], row["predicted_before_s"]);
  EXPECT_EQ(row["predicted_s"], row["step_s"]);
  EXPECT_EQ(row["host_bytes"], 0);
}

/// vDNN trains VGG-16 at batch 256 with 18 % less throughput than a card with memory for all (Rhu
/// et al., 2016): by its dynamic policy, which also chooses algorithms of convolutions, in 12 GB.
/// What is simulated instead is vdnn-all with one algorithm, on a card that is as fast as it was
/// measured to be but has 14 GB. Five points are what the comparison is meant to hold.
TEST(PlanCommand, VdnnAllIsWithinFivePointsOfItsAuthorsFigure) {
  const char* const root = std::getenv("BRIM_SOURCE_DIR");
  const std::string card = std::string(root ? root : ".") + "/bench/profiles/titan-x-cudnn4.toml";
  const auto row = [&](std::vector<std::string> more) {
    std::vector<std::string> args{"plan", "--device", card, "--json", "-", "--passes"};
    args.insert(args.end(), more.begin(), more.end());
    return json::parse(run_brim(args).out)["rows"][0];
  };
  EXPECT_NEAR(row({"memory,dead_code", "vgg11", "--batch", "64"})["step_s"], 0.529, 0.005);
  const auto loss = [&](const char* policy) {
    const json vdnn =
        row({"memory,dead_code,offload", "vgg16", "--batch", "256", "--policy", policy});
    EXPECT_TRUE(vdnn["fits"].get<bool>()) << vdnn;
    return 1 - vdnn["predicted_before_s"].get<double>() / vdnn["predicted_s"].get<double>();
  };
  EXPECT_NEAR(loss("vdnn-all"), 0.18, 0.05);
  // Without a choice of algorithms the dynamic policy finds that less has to be moved.
  EXPECT_DOUBLE_EQ(loss("vdnn-dynamic"), loss("vdnn-conv"));
  EXPECT_LT(loss("vdnn-dynamic"), 0.08);
}

TEST(PlanCommand, TellsWhatDoesNotFit) {
  const Ran step = plan({"--batch", "768", "--limit", "1200M", "--device", "t4"});
  ASSERT_EQ(step.code, 0) << step.err;
  EXPECT_NE(step.out.find("besides temporaries, which take at least"), std::string::npos)
      << step.out;
  const Ran vdnn =
      plan({"--batch", "768", "--limit", "1200M", "--device", "t4", "--policy", "vdnn-conv"});
  EXPECT_NE(vdnn.out.find("does not fit: by vdnn-conv temporaries take "), std::string::npos)
      << vdnn.out;
  const Ran weights = plan({"--batch", "1", "--limit", "100M"});
  ASSERT_EQ(weights.code, 0) << weights.err;
  EXPECT_NE(weights.out.find("weights, optimizer and batch alone are more"), std::string::npos)
      << weights.out;
  EXPECT_NE(weights.out.find("not even one sample fits"), std::string::npos) << weights.out;
}

TEST(PlanCommand, RefusesNonsense) {
  EXPECT_EQ(plan({"--batch", "0"}).code, 2);
  EXPECT_EQ(plan({"--batch", "8,,9"}).code, 2);
  EXPECT_EQ(plan({"--limit", "many"}).code, 2);
  const Ran large = plan({"--limit", "100T"});
  EXPECT_EQ(large.code, 2);
  EXPECT_NE(large.err.find("NVIDIA H100 SXM has"), std::string::npos) << large.err;
  EXPECT_EQ(plan({"--device", "v1000"}).code, 1);
  EXPECT_EQ(plan({"--passes", "offlod"}).code, 1);
  EXPECT_EQ(plan({"--policy", "vdnn"}).code, 2);
  const Ran unmoved = plan({"--policy", "vdnn-all", "--passes", "-offload"});
  EXPECT_EQ(unmoved.code, 1);
  EXPECT_NE(unmoved.err.find("add offload, or choose another memory policy"), std::string::npos)
      << unmoved.err;
  EXPECT_NE(
      run_brim({"plan", "vgg12"}).err.find("neither a built-in recipe nor a network; did you "),
      std::string::npos);
}

}  // namespace
}  // namespace brim::tests
