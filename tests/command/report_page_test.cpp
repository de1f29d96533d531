// The page of `brim report`: what it reads, and that nothing of a file becomes a part of its code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <brim/diag/account.h>

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
using tests::MadeRun;
using tests::make_run;

class ReportPage : public ::testing::Test {
 protected:
  void SetUp() override {
    if (chart_js().empty()) GTEST_SKIP() << "built without Chart.js";
  }
  tests::TemporaryFolder folder;
};

TEST_F(ReportPage, ReadsAWholeRun) {
  make_run(folder / "run");
  const page::Run run = read_run(folder / "run");
  EXPECT_EQ(run.history.good, 40);
  EXPECT_EQ(run.monitor.good, 60);
  EXPECT_EQ(run.sessions, 1);
  EXPECT_DOUBLE_EQ(run.images, 16000);
  EXPECT_DOUBLE_EQ(run.energy.at("cuda:0"), 250 * 80);
  const ordered_json model = model_of({run});
  EXPECT_EQ(model["runs"][0]["name"], "run");
  EXPECT_EQ(model["runs"][0]["accounts"][0]["worst"][0]["cause"], "input");
  EXPECT_EQ(model["runs"][0]["accounts"][0]["worst"][0]["last_step"], 2100);
}

TEST_F(ReportPage, TheWorstStretchesAreLinkedToTheTrace) {
  make_run(folder / "run", {.sessions = 2});
  json result = json::parse(std::ifstream(folder / "run/result.json"));
  const auto worst = [&] {
    std::ofstream(folder / "run/result.json") << result;
    return model_of({read_run(folder / "run")})["runs"][0]["accounts"][0]["worst"];
  };
  for (const ordered_json& row : worst()) EXPECT_FALSE(row.contains("in_trace"));
  const double started = read_run(folder / "run").last["started"];
  result["trace"] = {{"file", "/a/trace.json"}, {"begin", started + 0.5}};
  int linked = 0;
  for (const ordered_json& row : worst()) {
    const bool is_of_last = row["begin"] >= 80;  // the first process has no trace any more
    EXPECT_EQ(row.contains("in_trace"), is_of_last);
    if (!is_of_last) continue;
    ++linked;
    EXPECT_NEAR(row["in_trace"][0].get<double>(), std::max(0.0, row["begin"].get<double>() - 80.5),
                1e-3);
    EXPECT_NEAR(row["in_trace"][1].get<double>(), row["end"].get<double>() - 80.5, 1e-3);
  }
  EXPECT_GT(linked, 0);
}

TEST_F(ReportPage, AnOlderResultIsNotThatOfAResumedRun) {
  make_run(folder / "run");
  const double started = read_run(folder / "run").last["started"].get<double>();
  const auto with_result_of = [&](double time) {
    std::ofstream(folder / "run/result.json") << ordered_json{{"time", time}, {"accuracy", 0.25}};
    return read_run(folder / "run");
  };
  EXPECT_EQ(with_result_of(started + 5).result["accuracy"], 0.25);
  EXPECT_FALSE(with_result_of(started + 5).old_result);
  EXPECT_TRUE(with_result_of(started - 5).old_result);
  EXPECT_TRUE(with_result_of(started - 5).result.empty());
}

TEST_F(ReportPage, AResumedRunGoesOnWhereItStopped) {
  make_run(folder / "run", {.sessions = 2});
  const page::Run run = read_run(folder / "run");
  EXPECT_EQ(run.sessions, 2);
  EXPECT_DOUBLE_EQ(run.images, 32000);
  EXPECT_DOUBLE_EQ(run.energy.at("cuda:0"), 2 * 250 * 80);
  const auto& stretches = run.accounts.at("cuda:0").stretches();
  ASSERT_EQ(stretches.size(), 80U);
  // The hours between the two are no time of training.
  EXPECT_DOUBLE_EQ(stretches.back().end.seconds, 160);
  EXPECT_DOUBLE_EQ(stretches.back().end.step, 8000);
  EXPECT_DOUBLE_EQ(stretches[40].begin.step, 4000);
  EXPECT_DOUBLE_EQ(stretches[40].wall(), 2);
}

TEST_F(ReportPage, CountsLinesThatAreDamaged) {
  make_run(folder / "run", {.readings = 0});
  const std::string path = folder / "run/history.jsonl";
  std::ofstream(path, std::ios::app)
      << "garbage\n[1]\n\n"
      << std::string(100000, 'x') << "\n\xff\xfe\n"
      << R"({"loss": "much", "devices": 3, "validation": [], "step": 1e400})"
      << "\n"
      << R"({"devices": [null, {"device": 7}, {"device": "d", "account": {"seconds": []}}]})"
      << "\n"
      << R"({"loss": 0.1, "st)";
  const page::Run run = read_run(folder / "run");
  EXPECT_EQ(run.history.good, 41);  // a number that is too large is no JSON
  EXPECT_EQ(run.history.bad, 5);
  EXPECT_TRUE(run.history.cut);
}

TEST_F(ReportPage, ALineThatIsWholeNeedsNoEnd) {
  make_run(folder / "run", {.reports = 0});
  std::ofstream(folder / "run/history.jsonl") << R"({"loss": 1, "step": 1})";
  const page::Run run = read_run(folder / "run");
  EXPECT_EQ(run.history.good, 1);
  EXPECT_FALSE(run.history.cut);
}

TEST_F(ReportPage, ResultAloneWillDo) {
  make_run(folder / "run", {.readings = 0});
  std::filesystem::remove(folder / "run/history.jsonl");
  const ordered_json model = model_of({read_run(folder / "run")});
  const ordered_json& account = model["runs"][0]["accounts"][0];
  EXPECT_EQ(account["causes"], ordered_json({"compute", "input"}));
  EXPECT_DOUBLE_EQ(account["seconds"][0], 72);
}

TEST_F(ReportPage, ResultsOfWrongTypes) {
  make_run(folder / "run", {.readings = 0});
  for (const char* text :
       {"", "[]", "{\"a\": ", "null", "{\"accounts\": {\"d\": [1]}, \"loader\": 3}"}) {
    std::ofstream(folder / "run/result.json") << text;
    EXPECT_GT(html_page(model_of({read_run(folder / "run")}), "en").size(), 10000U) << text;
  }
}

TEST_F(ReportPage, NamesFromFilesStayText) {
  const std::string hostile = "</script><script>alert(1)</script><!--\u2028\"'&\xff";
  make_run(folder / "run", {.recipe = "x", .result = false, .readings = 0});
  json line = tests::history_line({}, 0, 50);
  line["recipe"] = line["devices"][0]["device"] = hostile;
  line["validation"]["metrics"][hostile] = 1;
  std::ofstream(folder / "run/history.jsonl", std::ios::app)
      << line.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
  std::filesystem::rename(folder / "run", folder / "<img src=x onerror=alert(2)>");
  const std::string html =
      html_page(model_of({read_run(folder / "<img src=x onerror=alert(2)>")}), "en");
  EXPECT_EQ(html.find("alert(1)</script>"), std::string::npos);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find("\u2028"), std::string::npos);
  EXPECT_NE(html.find("&lt;img src=x onerror=alert(2)&gt;"), std::string::npos);
  const json data = tests::data_of(html);
  EXPECT_NE(data.dump().find("</script><script>alert(1)</script><!--"), std::string::npos);
}

TEST_F(ReportPage, JsonAndHtmlAreEscaped) {
  EXPECT_EQ(json_for_script({{"a", "</script>&\u2029"}}),
            R"({"a":"\u003c/script\u003e\u0026\u2029"})");
  EXPECT_EQ(json_for_script({{"a", "\xff"}}), "{\"a\":\"\ufffd\"}");
  EXPECT_EQ(escaped_for_html("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
  // What was put in is not filled again.
  EXPECT_EQ(
      filled("{{a}}-{{b}}", [](std::string_view name) { return name == "a" ? "{{b}}" : "2"; }),
      "{{b}}-2");
}

TEST_F(ReportPage, ADayStaysBelowAMegabyte) {
  make_run(folder / "day", {.reports = 3000, .readings = 86400});
  make_run(folder / "other", {.reports = 3000, .readings = 20000});
  EXPECT_LT(html_page(model_of({read_run(folder / "day")}), "en").size(), 1000000U);
  EXPECT_LT(
      html_page(model_of({read_run(folder / "day"), read_run(folder / "other")}), "ko").size(),
      1000000U);
}

TEST_F(ReportPage, SeveralRunsAreCompared) {
  make_run(folder / "a", {.rate = 2000, .readings = 0});
  make_run(folder / "b", {.input_share = 0.2, .rate = 2200, .readings = 0});
  make_run(folder / "c", {.recipe = "other", .rate = 1000, .readings = 0});
  const ordered_json model =
      model_of({read_run(folder / "a"), read_run(folder / "b"), read_run(folder / "c")});
  const ordered_json& rate = model["comparison"][0];
  EXPECT_EQ(rate["key"], "rate");
  EXPECT_EQ(rate["values"], ordered_json({2000.0, 2200.0, 1000.0}));
  EXPECT_EQ(rate["differences"], ordered_json({0.0, 0.1, -0.5}));
  EXPECT_NEAR(rate["spread"].get<double>(), 200.0 / 2100, 1e-6);  // of a and b alone
  EXPECT_EQ(model["comparison"].back()["cause"], "input");
}

// For tests/tools/report_browser.py, which .ci/full has open them.
TEST_F(ReportPage, PagesForABrowser) {
  const char* to = std::getenv("BRIM_REPORT_PAGES");
  if (!to) GTEST_SKIP() << "BRIM_REPORT_PAGES names no folder";
  std::filesystem::create_directories(to);
  make_run(folder / "first", {.sessions = 2});
  make_run(folder / "second", {.input_share = 0.25, .rate = 2400});
  make_run(folder / "third", {.device = "cpu", .rate = 1400});
  make_run(folder / "<b>&", {.reports = 3000, .result = false, .readings = 86400});
  std::ofstream(folder / "<b>&/history.jsonl", std::ios::app) << "no JSON\n{\"cut";
  const auto write = [&](const std::string& name, const std::vector<std::string>& folders,
                         const std::string& language) {
    std::vector<page::Run> runs;
    for (const std::string& one : folders) runs.push_back(read_run(folder / one));
    std::ofstream(to + ("/" + name)) << html_page(model_of(runs), language);
  };
  write("one.html", {"first"}, "en");
  write("several.html", {"first", "second", "third"}, "ko");
  write("damaged.html", {"<b>&"}, "en");
  std::filesystem::create_directory(folder / "pruned");
  std::ofstream(folder / "pruned/result.json") << tests::kPruned;
  write("pruned.html", {"pruned"}, "ko");
}

TEST_F(ReportPage, BothLanguagesHaveAllTexts) {
  make_run(folder / "run");
  const ordered_json model = model_of({read_run(folder / "run")});
  const auto texts_of = [&](const std::string& language) {
    const std::string html = html_page(model, language), begin = "id=\"texts\">";
    EXPECT_NE(html.find("<html lang=\"" + language + "\">"), std::string::npos);
    EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
    const size_t at = html.find(begin) + begin.size();
    return json::parse(html.substr(at, html.find("</script>", at) - at));
  };
  const json english = texts_of("en"), korean = texts_of("ko");
  EXPECT_EQ(english.size(), korean.size());
  for (const auto& [key, text] : english.items()) EXPECT_TRUE(korean.contains(key)) << key;
}

TEST_F(ReportPage, CausesHaveColoursOfTheirOwnAndKoreanNames) {
  const json names = json::parse(texts())["ko"]["causes"];
  const std::string code(script());
  std::set<std::string> colours;
  for (size_t i = 0; i < diag::kCauseCount; ++i) {
    const std::string cause(diag::name(static_cast<diag::Cause>(i)));
    EXPECT_TRUE(names.contains(cause)) << cause;
    const size_t at = code.find("\"" + cause + "\": \"#");
    ASSERT_NE(at, std::string::npos) << cause;
    colours.insert(code.substr(at + cause.size() + 5, 7));
  }
  EXPECT_EQ(colours.size(), diag::kCauseCount);
}

}  // namespace
}  // namespace brim::command::page
