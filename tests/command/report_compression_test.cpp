// What the page of `brim report` has of networks that were made smaller.
#include "command/report_page/compression.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "command/report_page/embedded.h"
#include "command/report_page/html.h"
#include "command/report_page/model.h"
#include "command/report_page/run.h"
#include "command/run_files.h"
#include "temporary_folder.h"

namespace brim::command::page {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

class ReportCompression : public ::testing::Test {
 protected:
  void SetUp() override {
    if (chart_js().empty()) GTEST_SKIP() << "built without Chart.js";
  }
  tests::TemporaryFolder folder;
};

TEST_F(ReportCompression, ShowsWhatWasMadeSmaller) {
  const auto shown = [&](const char* result) {
    std::filesystem::create_directories(folder / "small");
    std::ofstream(folder / "small/result.json") << result;
    const std::vector<page::Run> runs = {read_run(folder / "small")};
    EXPECT_GT(html_page(model_of(runs), "ko").size(), 10000U);
    return model_of(runs)["runs"][0]["compression"];
  };
  const ordered_json pruned = shown(tests::kPruned);
  EXPECT_EQ(pruned["stages"].size(), 2U);
  EXPECT_EQ(pruned["stages"][1]["what"], "fine_tuned");
  EXPECT_EQ(pruned["stages"][1]["difference"]["low"], -0.5);
  EXPECT_EQ(pruned["layers"][0]["became"], ordered_json({{"zeros", 0.75}}));
  EXPECT_EQ(pruned["layers"][1]["became"],
            ordered_json({{"why", "its channels are in groups"}, {"shape", "[8, 2]"}}));
  EXPECT_EQ(pruned["layers"][2]["became"]["why"], "slower in integers: 2.5 us, f32 1.5 us");
  EXPECT_EQ(pruned["layers"][3]["became"],
            ordered_json({{"int8", true}, {"zeros", 0.75}, {"error", 0.25}}));
  EXPECT_EQ(pruned["times"][0]["after"], 1);

  const ordered_json shrunk = shown(R"({"command": "shrink", "chosen": 1,
      "points": [{"evaluation": null, "seconds": 2, "forms": {}},
                 {"evaluation": {"loss": 1}, "seconds": 1, "bytes": 1024,
                  "forms": {"a": {"sparsity": 0.5, "int8": true}}}],
      "layers": [{"name": "a", "shape": [8, 4], "forms": []}]})");
  EXPECT_EQ(shrunk["stages"][1]["what"], "point");
  EXPECT_EQ(shrunk["stages"][1]["number"], 1);
  EXPECT_EQ(shrunk["stages"][1]["is_chosen"], true);
  EXPECT_EQ(shrunk["stages"][1]["bytes"], 1024);
  EXPECT_EQ(shrunk["layers"][0]["became"], ordered_json({{"zeros", 0.5}, {"int8", true}}));
  EXPECT_EQ(shrunk["layers"][0]["shape"], "(8, 4)");

  for (const char* damaged :
       {R"({"command": "shrink", "points": 3, "layers": [7, {"forms": 1}], "chosen": 1e9})",
        R"({"command": "shrink", "points": [{"forms": {"a": 3}}], "chosen": 0,
            "layers": [{"name": "a", "forms": {}}]})",
        R"({"command": "prune", "dense": [], "times": [{"dense_s": "x"}], "layers": {}})"})
    EXPECT_TRUE(shown(damaged).is_object()) << damaged;
  EXPECT_TRUE(shown(R"({"command": "train"})").is_null());
}

TEST_F(ReportCompression, OfManyPointsThoseThatMatterStay) {
  json result = {{"command", "shrink"}, {"chosen", 701}, {"points", json::array()}};
  for (int i = 0; i < 2000; ++i)  // every hundredth one is on the frontier
    result["points"].push_back({{"evaluation", {{"loss", 1}}},
                                {"seconds", 1 - 1e-4 * i + (i % 100 == 0 ? 0 : 1)},
                                {"bytes", 1000},
                                {"metric", 1 - 1e-4 * i}});
  for (int i = 0; i < 700; ++i) result["layers"].push_back({{"name", std::to_string(i)}});
  const ordered_json shown = compression_of(result);
  EXPECT_EQ(shown["stages"].size(), 500U);
  EXPECT_EQ(shown["points"], 2000);
  EXPECT_EQ(shown["layers"].size(), 500U);
  EXPECT_EQ(shown["all_layers"], 700);
  std::set<int64_t> numbers;
  for (const ordered_json& stage : shown["stages"])
    numbers.insert(stage.value("number", int64_t{0}));
  EXPECT_EQ(numbers.size(), 500U);
  for (int64_t i = 0; i < 2000; i += 100) EXPECT_TRUE(numbers.contains(i)) << i;
  EXPECT_TRUE(numbers.contains(701));
  EXPECT_GT(*numbers.rbegin(), 1980);
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The literals behind `before`, a regular expression, with {} for what is put in.
std::set<std::string> literals_behind(const std::string& before, const std::string& text) {
  std::set<std::string> all;
  const std::regex literal(before + R"re(\s*(?:fmt::format\(\s*)?"([^"]+)")re");
  for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at)
    all.insert(std::regex_replace((*at)[1].str(), std::regex(R"(\{:[^}]*\})"), "{}"));
  return all;
}

/// What src/compress gives as reasons that a layer stays what it is.
std::set<std::string> reasons_in(const std::string& source) {
  std::set<std::string> reasons;
  for (const char* file :
       {"prune.cpp", "channel_removal.cpp", "calibrate.cpp", "choose_by_passes.cpp"}) {
    const std::string text = text_of(source + "/src/compress/" + file);
    for (const char* before : {"why = (?:is_kept \\?)?", "give_up\\(", "\\? (?=\"the network)"})
      reasons.merge(literals_behind(before, text));
    for (const char* function : {"why_dense(", "why_all_stay(", "std::string obstacle("}) {
      const size_t at = text.find(function);
      if (at == std::string::npos) continue;
      reasons.merge(literals_behind("return", text.substr(at, text.find("\n}\n", at) - at)));
    }
  }
  return reasons;
}

TEST_F(ReportCompression, ReasonsAreKnownInKorean) {
  const char* const source = std::getenv("BRIM_SOURCE_DIR");
  if (!source) GTEST_SKIP() << "BRIM_SOURCE_DIR is not set";
  const json known = json::parse(texts())["ko"]["sentences"];
  const std::set<std::string> reasons = reasons_in(source);
  EXPECT_GT(reasons.size(), 12U);
  for (const std::string& reason : reasons) EXPECT_TRUE(known.contains(reason)) << reason;
}

}  // namespace
}  // namespace brim::command::page
