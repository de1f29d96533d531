// An evaluation as JSON and in lines.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command/report.h"

namespace brim::command {
namespace {

TEST(EvaluationJson, ClassesKeepTheirOrder) {
  const train::Evaluation evaluation{
      .samples = 10,
      .classes = {{.name = "z", .samples = 5, .correct = 2},
                  {.name = "10", .samples = 3, .correct = 3},
                  {.name = "9", .samples = 2, .correct = 1}},
      .confusion = {{2, 3, 0}, {0, 3, 0}, {1, 0, 1}},
      .most_wrong = {{.sample = 7, .is = 0, .said = 1, .probability = 0.5, .loss = 2}}};
  const auto json = to_json(evaluation);
  EXPECT_EQ(json["classes"].dump(), R"(["z","10","9"])");
  EXPECT_EQ(json["confusion"].dump(), "[[2,3,0],[0,3,0],[1,0,1]]");
  EXPECT_EQ(json["most_wrong"][0]["class"], "z");
  EXPECT_EQ(json["most_wrong"][0]["predicted"], "10");
  EXPECT_NE(evaluation_table(evaluation, "test").find("most confused: z for 10 3, 9 for z 1\n"),
            std::string::npos);
  EXPECT_TRUE(to_json(train::Evaluation{})["confusion"].is_null());
}

}  // namespace
}  // namespace brim::command
