// What addr2line says.
#include "command/source_lines.h"

#include <gtest/gtest.h>

namespace brim::command {
namespace {

TEST(SourceLines, HaveTheLevelsOfInlinedCalls) {
  const auto found = parse_source_lines(
      "0x0000000000001234\n"
      "brim::Tensor::item() const\n"
      "/usr/include/brim/core/tensor.h:99\n"
      "main\n"
      "src/train.cpp:42 (discriminator 3)\n"
      "0x0000000000005678\n"
      "??\n"
      "??:0\n"
      "0x0000000000009abc\n"
      "f()\n"
      "src/train.cpp:?\n",
      4);
  ASSERT_EQ(found.size(), 4u);
  ASSERT_EQ(found[0].size(), 2u);
  EXPECT_EQ(found[0][0].line, 99);
  EXPECT_EQ(found[0][1].function, "main");
  EXPECT_EQ(found[0][1].file, "src/train.cpp");
  EXPECT_EQ(found[0][1].line, 42);
  ASSERT_EQ(found[1].size(), 1u);
  EXPECT_EQ(found[1][0].function, "");
  EXPECT_EQ(found[1][0].line, 0);
  ASSERT_EQ(found[2].size(), 1u);
  EXPECT_EQ(found[2][0].function, "f()");
  EXPECT_EQ(found[2][0].line, 0);
  EXPECT_TRUE(found[3].empty());
}

TEST(SourceLines, OfWhatIsNoneAreNone) {
  EXPECT_TRUE(parse_source_lines("", 0).empty());
  EXPECT_TRUE(parse_source_lines("nonsense", 1).at(0).empty());
  EXPECT_EQ(parse_source_lines("0x1\nf\na:1\n0x2\nf\na:2\n", 1).size(), 1u);
  EXPECT_TRUE(source_lines("", {1}).at(0).empty());
  const auto found = source_lines("/no/such/program", {1, 2});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].empty());
}

}  // namespace
}  // namespace brim::command
