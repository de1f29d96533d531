// Denormal numbers: kept unless they are to be flushed, in all threads that share an op.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include <brim/brim.h>

#include "threads.h"

namespace brim {
namespace {

using tests::Threads;

/// Sets it back to what the test began with.
class Denormals : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!set_flush_denormals(false)) GTEST_SKIP() << "this processor cannot flush denormals";
  }
  void TearDown() override { set_flush_denormals(false); }

  /// Of a million products of 1e-20 and 1e-20 in f32: how many are 0.
  static int64_t zeros_of_products() {
    const Tensor x = full({1'000'000}, 1e-20F);
    const std::vector<float> y = (x * x).to_vector<float>();
    return std::count(y.begin(), y.end(), 0.0F);
  }
};

TEST_F(Denormals, AreKeptUnlessSet) {
  const Threads guard(4);
  EXPECT_FALSE(flush_denormals());
  EXPECT_EQ(zeros_of_products(), 0);
  EXPECT_TRUE(set_flush_denormals(true));
  EXPECT_TRUE(flush_denormals());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(zeros_of_products(), 1'000'000);
  set_flush_denormals(false);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(zeros_of_products(), 0);
}

TEST_F(Denormals, BelongToTheThread) {
  const Threads guard(4);
  set_flush_denormals(true);
  bool inherited = false;
  int64_t kept = 0;
  std::thread([&] {
    inherited = flush_denormals();
    set_flush_denormals(false);
    kept = zeros_of_products();
  }).join();
  EXPECT_TRUE(inherited);
  EXPECT_EQ(kept, 0);
  EXPECT_EQ(zeros_of_products(), 1'000'000);
}

TEST_F(Denormals, AsOperandsToo) {
  const Tensor x = full({1000}, 1e-40F);
  EXPECT_GT((x * 1e10F).to_vector<float>()[0], 0.0F);
  set_flush_denormals(true);
  EXPECT_EQ((x * 1e10F).to_vector<float>()[0], 0.0F);
}

}  // namespace
}  // namespace brim
