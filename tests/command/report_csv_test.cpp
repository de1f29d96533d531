// The table of `brim report --csv`.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <brim/core/error.h>

#include "command/report_page/csv.h"
#include "message_of.h"
#include "temporary_folder.h"

namespace brim::command::page {
namespace {

class ReportCsv : public ::testing::Test {
 protected:
  /// A run's folder with such a history.
  std::string run(const std::string& name, const std::string& history) {
    std::filesystem::create_directory(folder / name);
    std::ofstream(folder / name + "/history.jsonl") << history;
    return folder / name;
  }
  tests::TemporaryFolder folder;
};

TEST_F(ReportCsv, HasARowForEachReport) {
  const std::string a =
      run("a", R"({"step": 1, "loss": 2.5, "stage": null, "devices": [{"account": {"wall": 0.5}}]}
{"step": 2, "loss": null, "epoch": 1}
)");
  const std::string b = run("b", R"({"loss": 1, "good": true, "step": 7})");
  EXPECT_EQ(csv_of({a, b}), "run,devices.0.account.wall,loss,step,epoch,good\r\n" + a +
                                ",0.5,2.5,1,,\r\n" + a + ",,,2,1,\r\n" + b + ",,1,7,,true\r\n");
}

TEST_F(ReportCsv, TextsAreQuotedAndComputeNothing) {
  const std::string csv = csv_of(
      {run("a", R"({"a,b": "x,\"y\"", "c": "=1+1", "d": "@x", "e": -1, "f": "-1", "g": "a=b"})"
                "\nno JSON\n[1]\n{\"a,b\": \"cut")});
  EXPECT_EQ(csv, "run,\"a,b\",c,d,e,f,g\r\n" + (folder / "a") +
                     ",\"x,\"\"y\"\"\",'=1+1,'@x,-1,'-1,a=b\r\n");
}

TEST_F(ReportCsv, WhatNoTrainingWritesIsRefused) {
  std::string many = "{";
  for (int i = 0; i < 3000; ++i) many += (i ? ",\"k" : "\"k") + std::to_string(i) + "\": 1";
  const std::string wide = run("wide", many + "}");
  EXPECT_NE(tests::message_of<FileError>([&] { (void)csv_of({wide}); }).find("2000 different keys"),
            std::string::npos);
  EXPECT_THROW((void)csv_of({(folder / "none")}), FileError);
  std::string deep = "1";
  for (int i = 0; i < 100; ++i) deep = "{\"a\": " + deep + "}";
  EXPECT_EQ(csv_of({run("deep", deep)}), "run\r\n" + (folder / "deep") + "\r\n");
}

}  // namespace
}  // namespace brim::command::page
