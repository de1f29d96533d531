// The sources of a runtime for some ops alone.
#include <brim/deploy/engine.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "temporary_folder.h"

namespace brim::tests {
namespace {

using namespace std::string_literals;

std::string text_of(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(SaveRuntime, HasTheSourcesOfEachOp) {
  const char* const source = std::getenv("BRIM_SOURCE_DIR");
  if (!source) GTEST_SKIP() << "BRIM_SOURCE_DIR is not set";
  const TemporaryFolder folder;
  static const std::regex kDefinition(R"(const Op (k\w+) = \{\s*OpCode::(\w+),)");
  int ops = 0;
  for (const auto& file : std::filesystem::directory_iterator(source + "/src/rt/ops"s)) {
    const std::string text = text_of(file.path());
    for (std::sregex_iterator at(text.begin(), text.end(), kDefinition), end; at != end; ++at) {
      const std::string op = (*at)[1].str(), name = (*at)[2].str(), runtime = folder / name;
      deploy::save_runtime(source, runtime, {.kernels = {name}});
      EXPECT_NE(text_of(runtime + "/src/rt/ops.cpp").find("{&" + op + ", nullptr}"),
                std::string::npos);
      EXPECT_TRUE(
          std::filesystem::exists(runtime + "/src/rt/ops/" + file.path().filename().string()));
      ++ops;
    }
  }
  EXPECT_GE(ops, 21);
}

}  // namespace
}  // namespace brim::tests
