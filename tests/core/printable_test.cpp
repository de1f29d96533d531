// Text that goes to a terminal.
#include "core/printable.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <brim/core/error.h>

#include "core/check.h"

namespace brim {
namespace {

TEST(Printable, KeepsText) {
  for (const std::string text : {"", "plain", "tilde~", "\xed\x95\x9c\xea\xb8\x80 \xc3\xa4",
                                 "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80",
                                 "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(Printable, MasksControlCharacters) {
  EXPECT_EQ(printable("\x1b]0;title\x07"), "?]0;title?");
  EXPECT_EQ(printable(std::string("a\0b\tc\r\nd\x7f", 9)), "a?b?c??d?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc2\x80"),
            "?31m?")
      << "C1";
  EXPECT_EQ(printable("one\ntwo\r\n", "\n"), "one\ntwo?\n");
}

TEST(Printable, MasksWhatIsNoUtf8) {
  using Pair = std::pair<const char*, const char*>;
  for (const auto& [text, shown] : std::vector<Pair>{{"caf\xe9", "caf?"},
                                                     {"\xff\xfe", "??"},
                                                     {"\x80", "?"},
                                                     {"\xc3", "?"},
                                                     {"\xe2\x82", "??"},
                                                     {"\xc0\xaf", "??"},
                                                     {"\xe0\x80\x9b", "???"},
                                                     {"\xed\xa0\x80", "???"},
                                                     {"\xf4\x90\x80\x80", "????"},
                                                     {"\xf5\x80\x80\x80", "????"},
                                                     {"\xc3\x1b", "??"}}) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_FALSE(is_utf8(text)) << shown;
  }
}

TEST(Printable, ErrorsAreOneLineThatATerminalMayShow) {
  EXPECT_STREQ(FileError("[x] a\x1b[2J\n\xff").what(), "[x] a?[2J??");
  EXPECT_STREQ(OutOfMemory("b\x07", 1, 2, 3).what(), "b?");
  try {
    raise<ValueError>("{}", "c\x1b");
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "c?");
  }
}

}  // namespace
}  // namespace brim
