// Kernels and the plan on the page of `brim report`, out of files that anybody may have written.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command/report_page/operations.h"

namespace brim::command::page {
namespace {

using nlohmann::json;

TEST(ReportOperations, AreTheResults) {
  const json result =
      json::parse(R"j({"device": "cpu", "roof": {"operations_per_s": 1e11, "bytes_per_s": 1e10},
    "ops": [{"op": "matmul", "shapes": "(2, 2)", "calls": 3, "seconds": 0.5, "operations": 16, "bytes": 48, "share_of_roof": 0.25},
            {"op": "a kernel of cuda", "shapes": "", "calls": 1, "seconds": 0.25, "operations": null, "bytes": null}]})j");
  const auto made = operations_of(result);
  EXPECT_EQ(made["device"], "cpu");
  EXPECT_EQ(made["seconds"], 0.75);
  EXPECT_EQ(made["roof"]["bytes_per_s"], 1e10);
  ASSERT_EQ(made["rows"].size(), 2U);
  EXPECT_EQ(made["rows"][0]["share_of_roof"], 0.25);
  EXPECT_FALSE(made["rows"][1].contains("operations"));
}

TEST(ReportOperations, MayBeMissingOrWrong) {
  for (const char* text :
       {"{}", R"({"ops": null})", R"({"ops": []})", R"({"ops": 7})",
        R"({"ops": [1, "a", null, []]})", R"({"ops": [{"op": "a", "calls": 0, "seconds": 1}]})",
        R"({"ops": [{"op": "a", "calls": 1, "seconds": -1}]})",
        R"({"ops": [{"op": "a", "calls": "1", "seconds": "1"}]})"})
    EXPECT_TRUE(operations_of(json::parse(text)).is_null()) << text;
  const auto made = operations_of(json::parse(
      R"({"ops": [{"op": 7, "calls": 1, "seconds": 1}], "roof": {"operations_per_s": 0, "bytes_per_s": 1}})"));
  EXPECT_EQ(made["rows"][0]["op"], "");
  EXPECT_TRUE(made["roof"].is_null());
}

TEST(ReportOperations, MemoryIsWhatLivesAtEachLaunch) {
  const json result = json::parse(R"j({"plan": {"arena_bytes": 192,
    "launches": [["a", 1, 2], ["b", 1, 2], ["c", 1, 2]],
    "temporaries": [["(4)", "f32", 0, 64, 0, 1, false], ["(4)", "f32", 0, 64, 1, 3, true], ["(8)", "f32", 64, 128, 1, 2, false]]}})j");
  const auto plan = plan_of(result);
  EXPECT_EQ(plan["launches"].dump(), R"(["a","b","c"])");
  EXPECT_EQ(plan["live"].dump(), "[64,192,128]");
  EXPECT_EQ(plan["temporaries"].dump(), R"j([["(8)","f32",64,128,1,2],["(4)","f32",0,64,0,1]])j");
}

TEST(ReportOperations, APlanThatContradictsItselfIsNone) {
  const auto plan = [](const std::string& arena, const std::string& launches,
                       const std::string& temporary) {
    return plan_of(json::parse(R"({"plan": {"arena_bytes": )" + arena + R"(, "launches": )" +
                               launches + R"(, "temporaries": [)" + temporary + "]}}"));
  };
  const std::string good = R"j(["(4)", "f32", 0, 64, 0, 1, false])j", one = R"([["a", 1, 2]])";
  EXPECT_FALSE(plan("64", one, good).is_null());
  EXPECT_TRUE(plan("64", "[]", good).is_null());
  EXPECT_TRUE(plan("64", R"(["a"])", good).is_null());
  EXPECT_TRUE(plan("64", R"([[7]])", good).is_null());
  EXPECT_TRUE(plan("0", one, good).is_null());
  EXPECT_TRUE(plan("-1", one, good).is_null());
  EXPECT_TRUE(plan("1e300", one, good).is_null());
  for (const char* row :
       {R"(["a", "f32", 1, 64, 0, 1, false])", R"(["a", "f32", 0, 64, 0, 2, false])",
        R"(["a", "f32", 0, 64, 1, 0, false])", R"(["a", "f32", 0.5, 1, 0, 1, false])",
        R"(["a", "f32", -1, 1, 0, 1, false])", R"(["a", "f32", 0, 64, 0])", "7", "{}"})
    EXPECT_TRUE(plan("64", one, row).is_null()) << row;
}

}  // namespace
}  // namespace brim::command::page
