// Latest: what is read was written at once, whatever the writer does meanwhile.
#include "core/latest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace brim {
namespace {

struct Alike {
  std::array<int, 33> numbers{};  // all the same; an odd count fills no word
  explicit Alike(int n = 0) { numbers.fill(n); }
};

TEST(Latest, IsTheLastThatWasWritten) {
  Latest<Alike> latest;
  EXPECT_EQ(latest.read().numbers[32], 0);
  latest.write(Alike(7));
  EXPECT_EQ(latest.read().numbers[32], 7);
}

TEST(Latest, ReadersNeverSeeHalves) {
  Latest<Alike> latest;
  std::atomic<bool> done{false};
  std::atomic<int> torn{0}, backwards{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r)
    readers.emplace_back([&] {
      int last = 0;
      while (!done) {
        const Alike value = latest.read();
        torn += std::ranges::count(value.numbers, value.numbers[0]) != std::ssize(value.numbers);
        backwards += value.numbers[0] < last;
        last = value.numbers[0];
      }
    });
  for (int i = 1; i <= 200'000; ++i) latest.write(Alike(i));
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(backwards, 0);
  EXPECT_EQ(latest.read().numbers[0], 200'000);
}

}  // namespace
}  // namespace brim
