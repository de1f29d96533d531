// `brim bench sweep`: its table of ops, what the server answers, and PyTorch's side where there is
// one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_brim.h"
#include "sanitized.h"

namespace brim::tests {
namespace {

using nlohmann::json;

class BenchSweep : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  }

  /// What the server answers to these lines.
  std::vector<json> answers(const std::vector<std::string>& lines) {
    const std::string requests = folder / "requests";
    std::ofstream file(requests);
    for (const std::string& line : lines) file << line << "\n";
    file.close();
    const Ran ran = run_brim({"bench", "sweep", "--serve"}, "", "<" + in_quotes(requests));
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::vector<json> result;
    for (size_t begin = 0, end; (end = ran.out.find('\n', begin)) != std::string::npos;
         begin = end + 1)
      result.push_back(json::parse(ran.out.substr(begin, end - begin)));
    return result;
  }

  static void fails(const std::vector<std::string>& args, int code, const std::string& words,
                    const std::string& before = "") {
    std::vector<std::string> all = {"bench", "sweep"};
    all.insert(all.end(), args.begin(), args.end());
    const Ran ran = run_brim(all, before);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }

  TemporaryFolder folder;
};

json request(const std::string& op, const std::string& layout, const std::string& dtype) {
  return {{"op", op},        {"layout", layout}, {"dtype", dtype},
          {"elements", 100}, {"threads", 1},     {"seconds", 1e-5}};
}

TEST_F(BenchSweep, EveryOpRunsInEachLayoutAndDtype) {
  const json ops = answers({R"({"list": true})"}).at(0)["ops"];
  ASSERT_GT(ops.size(), 200U);
  std::vector<std::string> requests;
  for (const json& op : ops) {
    EXPECT_FALSE(op["family"].get<std::string>().empty()) << op;
    EXPECT_FALSE(op["layouts"].empty()) << op;
    for (const json& layout : op["layouts"])
      for (const json& dtype : op["dtypes"])
        requests.push_back(request(op["op"], layout, dtype).dump());
  }
  const std::vector<json> all = answers(requests);
  ASSERT_EQ(all.size(), requests.size());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_FALSE(all[i].contains("error")) << requests[i] << ": " << all[i];
    EXPECT_GT(all[i]["us"], 0) << requests[i];
    EXPECT_FALSE(all[i]["results"].empty()) << requests[i];
  }
}

TEST_F(BenchSweep, NamesOpsOnce) {
  const json ops = answers({R"({"list": true})"}).at(0)["ops"];
  std::vector<std::string> names;
  for (const json& op : ops) names.push_back(op["op"]);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
  const Ran listed = run_brim({"bench", "sweep", "list"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_EQ(static_cast<size_t>(std::count(listed.out.begin(), listed.out.end(), '\n')),
            names.size() + 1);
}

TEST_F(BenchSweep, TellsWhatAStepResultsIn) {
  const std::vector<json> all = answers({request("sort", "rows-10", "f32").dump(),
                                         request("where", "channel-nhwc", "bf16").dump(),
                                         request("linear-train", "narrow", "f32").dump()});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["results"], json({"f32 (10, 10)", "i64 (10, 10)"}));
  EXPECT_EQ(all[1]["results"], json({"bf16 (1, 16, 2, 2)"}));
  EXPECT_EQ(all[2]["results"], json({"f32 (10, 10)", "f32 (10, 128)", "f32 (10, 128)", "f32 (10)"}))
      << "the output, then the gradients";
}

TEST_F(BenchSweep, AnswersWhatFailsAndGoesOn) {
  json none = request("exp", "dense", "f32"), many = none;
  none["elements"] = 0;
  many.erase("threads");
  const std::vector<json> all =
      answers({"no json", request("epx", "dense", "f32").dump(),
               request("exp", "nhwc", "f32").dump(), request("exp", "dense", "i64").dump(),
               none.dump(), many.dump(), "[]", request("exp", "dense", "f32").dump()});
  ASSERT_EQ(all.size(), 8U);
  const std::vector<std::string> words = {"parse error",
                                          "did you mean 'exp'?",
                                          "it has dense, transposed, strided",
                                          "not swept in i64",
                                          "at least 1",
                                          "threads",
                                          ""};
  for (size_t i = 0; i < words.size(); ++i)
    EXPECT_NE(all[i]["error"].get<std::string>().find(words[i]), std::string::npos) << all[i];
  EXPECT_GT(all.back()["us"], 0);
}

TEST_F(BenchSweep, RefusesWhatNoCaseHas) {
  fails({"softmx"}, 2, "unknown op 'softmx'; did you mean 'softmax'?");
  fails({"exp", "list"}, 2, "unknown op 'list'");
  for (const std::string sizes : {"many", "1e4,", "0", "1.5", "-1", "1e4;1e6", "nan", "1e99"})
    fails({"--sizes", sizes}, 2, "is no whole number from 1 to");
  fails({"--threads", "1,x"}, 2, "--threads: 'x' is no whole number");
  fails({"--dtypes", "f33"}, 2, "--dtypes: unknown 'f33'; did you mean 'f32'?");
  fails({"--layouts", "nwhc"}, 2, "--layouts: unknown 'nwhc'");
  fails({"matmul", "--layouts", "nhwc"}, 2, "no such op has these layouts and dtypes");
  fails({"--rounds", "0"}, 2, "--rounds");
  fails({"exp", "--json", folder / "no/such.json"}, 1, "make the folder first");
}

TEST_F(BenchSweep, SaysWhatIsMissing) {
  fails({"--python", "/no/such/python"}, 1, "cannot be started");
  fails({"--python", "/bin/true"}, 1, "/bin/true does not run Python's code");
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  std::ofstream(folder / "torch.py") << "raise ImportError('not here')\n";
  fails({"exp"}, 1, "then run: brim bench sweep --python",
        "export BRIM_PYTHON=python3 PYTHONPATH=" + in_quotes(folder.path()) + ";");
}

/// All cases, so that both tables have the same names, shapes and dtypes: the script ends at the
/// first that differs.
TEST_F(BenchSweep, BesidePyTorch) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "two processes, thousands of ops";
  const char* variable = std::getenv("BRIM_PYTHON");
  const std::string python = variable && *variable ? variable : "python3";
  if (std::system((in_quotes(python) + " -c 'import torch' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << python << " has no PyTorch; set BRIM_PYTHON to one that has it";
  const std::string report = folder / "report.json";
  for (const std::vector<std::string>& part :
       {std::vector<std::string>{"--dtypes", "f32"},
        {"--dtypes", "bf16,f16,i64,u8,bool", "--layouts", "dense,all,rows-1000,nchw"}}) {
    std::vector<std::string> args = {"bench",   "sweep",     "--python", python,     "--sizes",
                                     "100",     "--seconds", "0.0001",   "--rounds", "1",
                                     "--below", "0.001",     "--json",   report};
    args.insert(args.end(), part.begin(), part.end());
    const Ran ran = run_brim(args);
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_NE(ran.out.find("PyTorch / brim"), std::string::npos) << ran.out;
    const json all = json::parse(slurp(report));
    EXPECT_EQ(all["summary"]["all"]["cases"], all["results"].size());
    for (const json& result : all["results"]) EXPECT_GT(result["ratio"], 0) << result;
  }
}

}  // namespace
}  // namespace brim::tests
