// The file that keeps choices between runs: what is in it, and what damage does.
#include "core/cache_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "temporary_folder.h"

namespace brim {
namespace {

class ChoiceFileTest : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path) << text; }
  std::string read() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  tests::TemporaryFolder folder;
  const std::string path = folder / "cache/choices.json";
};

TEST_F(ChoiceFileTest, KeepsChoicesByMachine) {
  ChoiceFile file(path, "a");
  EXPECT_FALSE(file.find("x").has_value());
  file.keep("x", "1");
  file.keep("x", "2");
  EXPECT_EQ(file.find("x"), "2");
  EXPECT_EQ(ChoiceFile(path, "a").find("x"), "2");
  EXPECT_FALSE(ChoiceFile(path, "b").find("x").has_value());
  // What two write stays.
  ChoiceFile other(path, "b");
  file.keep("y", "3");
  other.keep("y", "4");
  EXPECT_EQ(ChoiceFile(path, "a").find("y"), "3");
  EXPECT_EQ(ChoiceFile(path, "b").find("y"), "4");
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cache"))
    EXPECT_TRUE(entry.path() == path || entry.path() == path + ".lock") << entry.path();
}

TEST_F(ChoiceFileTest, DamageIsLeftOutOfAccount) {
  std::filesystem::create_directories(folder / "cache");
  const std::string longer(1000, 'x');
  for (const std::string& damage :
       {std::string("no JSON"), std::string("[1]"), std::string("{\"version\": 2}"),
        std::string(R"({"version": 1, "machines": [1]})"),
        std::string(R"({"version": 1, "machines": {"a": 1}})"),
        std::string(R"({"version": 1, "machines": {"a": {"x": 1}}})"),
        R"({"version": 1, "machines": {"a": {"x": ")" + longer + "\"}}}", std::string("\0\xff{", 3),
        std::string(100000, '[')}) {
    write(damage);
    ::testing::internal::CaptureStderr();
    ChoiceFile file(path, "a");
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("measuring again"), std::string::npos)
        << damage.substr(0, 60);
    EXPECT_FALSE(file.find("x").has_value());
    file.keep("x", "1");
    EXPECT_EQ(ChoiceFile(path, "a").find("x"), "1") << read();
  }
}

TEST_F(ChoiceFileTest, TooManyValuesBeginAnew) {
  Measured<double> all, found;
  std::string why;
  for (int i = 0; i <= 100000; ++i) all["a"].emplace_hint(all["a"].end(), std::to_string(i), 1);
  EXPECT_TRUE(write_measured(path, all, "a"));
  EXPECT_TRUE(read_measured(path, found, why)) << why;
  EXPECT_TRUE(all.empty() && found.empty());
  all["a"]["x"] = 2;
  EXPECT_TRUE(write_measured(path, all, "a"));
  EXPECT_TRUE(read_measured(path, found, why)) << why;
  EXPECT_EQ(found["a"]["x"], 2);
}

TEST_F(ChoiceFileTest, AFileThatCannotBeWrittenIsToldOnce) {
  ChoiceFile file("/dev/null/choices.json", "a");
  EXPECT_TRUE(file.are_kept());
  ::testing::internal::CaptureStderr();
  file.keep("x", "1");
  file.keep("y", "1");
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("cannot write"), said.rfind("cannot write"));
  EXPECT_NE(said.find("cannot write /dev/null/choices.json"), std::string::npos) << said;
  EXPECT_FALSE(file.are_kept());
  EXPECT_EQ(file.find("x"), "1");
  EXPECT_FALSE(ChoiceFile("", "a").are_kept());
}

}  // namespace
}  // namespace brim
