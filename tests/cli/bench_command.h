// Tests of `brim bench`.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <string>
#include <vector>

#include "cli/run_brim.h"

namespace brim::tests {

class BenchCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (access(brim_path().c_str(), X_OK) != 0) GTEST_SKIP() << brim_path() << " is not built";
  }
  /// Fails with `words` in the one line on stderr.
  static void fails(const std::vector<std::string>& args, int code, const std::string& words,
                    const std::string& before = "") {
    const Ran ran = run_brim(args, before);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_NE(ran.err.find(words), std::string::npos) << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
  TemporaryFolder folder;
};

}  // namespace brim::tests
