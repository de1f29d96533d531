// Settings from the environment; tests leave it to each other as they found it.
#include "environment.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <utility>

#include <brim/core/error.h>

#include "core/environment.h"

namespace brim::tests {
namespace {

TEST(Environment, IsAsItWasBefore) {
  constexpr const char* kName = "BRIM_TEST_OF_ENVIRONMENT";
  ASSERT_EQ(std::getenv(kName), nullptr);
  {
    Environment outer(kName, "a");
    EXPECT_STREQ(std::getenv(kName), "a");
    {
      const Environment inner(kName, "");
      EXPECT_STREQ(std::getenv(kName), "");
    }
    EXPECT_STREQ(std::getenv(kName), "a");
    outer.set("b");
    EXPECT_STREQ(std::getenv(kName), "b");
  }
  EXPECT_EQ(std::getenv(kName), nullptr);
}

TEST(Environment, SwitchesAreOnOrOff) {
  constexpr const char* kName = "BRIM_TEST_OF_SWITCHES";
  EXPECT_FALSE(environment_switch(kName));
  for (const auto& [value, is_on] : {std::pair{"", false}, {"0", false}, {"1", true}}) {
    const Environment set(kName, value);
    EXPECT_EQ(environment_switch(kName), is_on) << value;
  }
  for (const char* value : {"on", "true", "2", "01", " 1", "-1"}) {
    const Environment set(kName, value);
    EXPECT_THROW((void)environment_switch(kName), ValueError) << value;
  }
}

TEST(Environment, NumbersAreWhole) {
  constexpr const char* kName = "BRIM_TEST_OF_NUMBERS";
  EXPECT_EQ(environment_number(kName, 7), 7);
  for (const auto& [value, number] : {std::pair{"", int64_t{7}},
                                      {"0", 0},
                                      {"32768", 32768},
                                      {"9223372036854775807", INT64_MAX}}) {
    const Environment set(kName, value);
    EXPECT_EQ(environment_number(kName, 7), number) << value;
  }
  for (const char* value : {"-1", "1.5", "1k", " 1", "0x10", "9223372036854775808", "many"}) {
    const Environment set(kName, value);
    EXPECT_THROW((void)environment_number(kName, 7), ValueError) << value;
  }
}

}  // namespace
}  // namespace brim::tests
