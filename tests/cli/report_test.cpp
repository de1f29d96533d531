// `brim report` as users call it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/run_brim.h"
#include "command/run_files.h"

namespace brim::tests {
namespace {

namespace fs = std::filesystem;

class ReportCommand : public ::testing::Test {
 protected:
  void fails(const std::vector<std::string>& args, int code,
             const std::vector<std::string>& words) {
    std::vector<std::string> all = {"report"};
    all.insert(all.end(), args.begin(), args.end());
    const Ran ran = run_brim(all);
    EXPECT_EQ(ran.code, code) << ran.err;
    for (const std::string& word : words)
      EXPECT_NE(ran.err.find(word), std::string::npos) << word << " is not in " << ran.err;
  }
  TemporaryFolder folder;
};

TEST_F(ReportCommand, WritesAPage) {
  make_run(folder / "a");
  make_run(folder / "b", {.rate = 2000});
  const std::string page = folder / "page.html";
  const Ran one = run_brim({"report", folder / "a", "-o", page});
  if (one.err.find("without Chart.js") != std::string::npos) GTEST_SKIP() << one.err;
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find("page.html: 1 run, "), std::string::npos) << one.out;
  EXPECT_TRUE(slurp(page).starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(data_of(slurp(page))["runs"].size(), 1U);
  const Ran two = run_brim({"report", folder / "a", folder / "b/", "-o", page, "--language", "ko"});
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(data_of(slurp(page))["runs"][1]["name"], "b");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3);
}

TEST_F(ReportCommand, FoldersThatHoldNoRun) {
  const std::string page = folder / "page.html";
  fs::create_directory(folder / "empty");
  fails({folder / "absent", "-o", page}, 1, {"absent", "is no folder", "brim train --out"});
  fails({folder / "empty", "-o", page}, 1,
        {"holds neither history.jsonl nor result.json",
         "give the folder of brim train, prune, quantize or shrink --out"});
  fs::create_symlink("history.jsonl", folder / "empty/history.jsonl");
  fails({folder / "empty", "-o", page}, 1, {"history.jsonl cannot be read: Too many levels"});
  fails({"-o", page}, 2, {"runs"});
  EXPECT_FALSE(fs::exists(page));
}

TEST_F(ReportCommand, PlacesThatCannotBeWritten) {
  make_run(folder / "a");
  fails({folder / "a", "-o", folder.path()}, 1, {"is a folder; give the name of a file to --out"});
  fails({folder / "a", "-o", folder / "no/page.html"}, 1,
        {"No such file or directory", "make the folder first"});
  fs::create_directories(folder / "a/shrink");
  std::ofstream(folder / "a/shrink/point-1.safetensors") << "weights";
  for (const char* own :
       {"a/history.jsonl", "a/result.json", "a/model.safetensors", "a/shrink/point-1.safetensors"})
    fails({folder / "a", "-o", folder / own}, 2, {"would replace"});
  fails({folder / "a", "--language", "xx"}, 2, {"--language"});
  fails({folder / "a", "-o", ""}, 2, {"an empty value"});
}

}  // namespace
}  // namespace brim::tests
