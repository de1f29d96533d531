// Commands that fail: exit code not 0, exactly one line on stderr that names the thing and says
// what to do, and nothing left behind.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cli/run_brim.h"

namespace brim::tests {

/// All files and folders below `folder`.
inline std::set<std::string> listing(const std::string& folder) {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    found.insert(entry.path().string());
  return found;
}

/// A folder with tiny data, and what is expected of a command that fails.
class FailingCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
    write_tiny_cifar(data());
  }
  std::string data() const { return folder / "data"; }
  std::string file(const std::string& name, const std::string& content) {
    std::ofstream(folder / name, std::ios::binary) << content;
    return folder / name;
  }
  /// A run with weights and one checkpoint.
  std::string trained() {
    const std::string out = folder / "run";
    if (!std::filesystem::exists(out)) {
      const Ran ran =
          run_brim({"train", "tutorial-cnn", "--data", data(), "--epochs", "1", "--out", out});
      EXPECT_EQ(ran.code, 0) << ran.err;
    }
    return out;
  }

  /// Runs it and checks that it fails as it should. Each of `words` must be in the message.
  void fails(const std::vector<std::string>& args, int code, const std::vector<std::string>& words,
             const std::string& before = "") {
    const std::set<std::string> files = listing(folder.path());
    const Ran ran = run_brim(args, before);
    std::string line;
    for (const std::string& arg : args) line += arg + " ";
    SCOPED_TRACE(line);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_TRUE(ran.err.starts_with("brim: error: ")) << ran.err;
    for (const std::string& word : words)
      EXPECT_NE(ran.err.find(word), std::string::npos) << "'" << word << "' is not in: " << ran.err;
    EXPECT_EQ(listing(folder.path()), files) << "files were left behind or lost";
  }
  /// brim train tutorial-cnn on the tiny data with more options.
  void train_fails(const std::vector<std::string>& more, int code,
                   const std::vector<std::string>& words, const std::string& before = "") {
    std::vector<std::string> args = {"train", "tutorial-cnn", "--data", data()};
    args.insert(args.end(), more.begin(), more.end());
    fails(args, code, words, before);
  }

  TemporaryFolder folder;
};

}  // namespace brim::tests
