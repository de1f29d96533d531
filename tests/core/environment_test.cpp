// Tests leave the environment to each other as they found it.
#include "environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

}  // namespace
}  // namespace brim::tests
