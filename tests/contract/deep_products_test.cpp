// Stacks of bf16 products that are deeper than what is summed in registers.
#include <gtest/gtest.h>

#include <vector>

#include <brim/brim.h>

#include "threads.h"

namespace brim {
namespace {

TEST(DeepProducts, StacksDoNotDependOnThreads) {
  Generator generator(3);
  for (const int64_t count : {1, 3, 9, 40}) {
    const Tensor a = randn({count, 5, 2100}, {}, &generator).to(bf16);
    const Tensor b = randn({count, 2100, 7}, {}, &generator).to(bf16);
    const Tensor want = matmul(a.to(f64), b.to(f64));
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 5}) {
      const tests::Threads chosen(threads);
      const Tensor y = matmul(a, b).to(f64);
      EXPECT_LE(amax(abs(y - want)).item(), 0x1p-8 * amax(abs(want)).item() + 1e-3);
      results.push_back(y.to_vector<double>());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

}  // namespace
}  // namespace brim
