// The keyed permutation: a bijection for every size, well mixed, and the same for ever.
#include "data/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace brim::data {
namespace {

TEST(Permutation, IsABijection) {
  for (const int64_t n : {1,  2,  3,  4,  5,   7,   8,   9,   10,   15,   16,
                          17, 63, 64, 65, 100, 255, 256, 257, 1000, 4097, 50000}) {
    for (const uint64_t key : {0, 1, 2}) {
      const Permutation order(n, key);
      std::vector<bool> seen(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        const int64_t x = order[i];
        ASSERT_GE(x, 0);
        ASSERT_LT(x, n);
        ASSERT_FALSE(seen[static_cast<size_t>(x)]) << "n " << n << " key " << key;
        seen[static_cast<size_t>(x)] = true;
      }
    }
  }
}

TEST(Permutation, HandlesHugeSizes) {
  const int64_t n = (int64_t{1} << 40) + 12345;
  const Permutation order(n, 3);
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_GE(order[n - 1 - i], 0);
    ASSERT_LT(order[n - 1 - i], n);
  }
}

TEST(Permutation, MixesAndDependsOnTheKey) {
  const int64_t n = 10000;
  const Permutation a(n, 1), b(n, 2);
  // Correlation of position and element, and of two keys: both near 0 (standard deviation 0.01).
  double with_position = 0, with_key = 0;
  int ascending = 0, equal = 0;
  const double middle = (n - 1) / 2.0, variance = (n * static_cast<double>(n) - 1) / 12;
  for (int64_t i = 0; i < n; ++i) {
    with_position += (static_cast<double>(i) - middle) * (static_cast<double>(a[i]) - middle);
    with_key += (static_cast<double>(b[i]) - middle) * (static_cast<double>(a[i]) - middle);
    if (i > 0) ascending += a[i] > a[i - 1];
    equal += a[i] == b[i];
  }
  EXPECT_LT(std::abs(with_position / n / variance), 0.05);
  EXPECT_LT(std::abs(with_key / n / variance), 0.05);
  EXPECT_NEAR(ascending, n / 2, 250);
  EXPECT_LT(equal, 10);
}

TEST(Permutation, EveryElementComesFirstForSomeKey) {
  std::vector<int> first(10);
  for (uint64_t key = 0; key < 2000; ++key) ++first[static_cast<size_t>(Permutation(10, key)[0])];
  for (const int count : first) EXPECT_NEAR(count, 200, 80);
}

TEST(Permutation, SideBySideIsTheSame) {
  for (const int64_t n :
       {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{5}, int64_t{63}, int64_t{64}, int64_t{65},
        int64_t{1000}, int64_t{1} << 20, (int64_t{1} << 40) + 1, (int64_t{1} << 62) + 3}) {
    const Permutation order(n, 9);
    for (const int64_t count : {0, 1, 63, 64, 65, 300}) {
      std::vector<int64_t> positions(static_cast<size_t>(count));
      for (size_t i = 0; i < positions.size(); ++i)
        positions[i] = static_cast<int64_t>(i * 7919) % n;
      std::vector<int64_t> elements = positions;
      order.replace(elements);
      for (size_t i = 0; i < positions.size(); ++i)
        ASSERT_EQ(elements[i], order[positions[i]]) << n << " " << i;
    }
  }
}

TEST(Permutation, IsTheSameForEver) {
  const Permutation order(50000, 42);
  std::vector<int64_t> head;
  for (int64_t i = 0; i < 5; ++i) head.push_back(order[i]);
  EXPECT_EQ(head, (std::vector<int64_t>{5789, 18125, 2330, 19615, 29216}));
}

}  // namespace
}  // namespace brim::data
