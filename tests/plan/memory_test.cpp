// Where temporaries lie in the arena, and who may have it between steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include <brim/brim.h>

#include "plan/before_step.h"
#include "plan/memory.h"

namespace brim {
namespace {

/// As an arena's: some live through everything, most for a few launches.
std::vector<plan::Block> random_blocks(std::mt19937& random, int count) {
  std::vector<plan::Block> blocks;
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(random() % 100);
    const int length = static_cast<int>(random() % (random() % 5 == 0 ? 80 : 8));
    blocks.push_back({nullptr, 0, 64 * (1 + random() % 500), first, first + length});
  }
  return blocks;
}

TEST(Arena, PlacesNothingOverWhatLives) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<plan::Block> blocks = random_blocks(random, 60);
    const size_t bytes = plan::place(blocks, /*share=*/true);
    size_t end = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      const plan::Block& a = blocks[i];
      end = std::max(end, a.offset + a.bytes);
      for (size_t j = 0; j < i; ++j) {
        const plan::Block& b = blocks[j];
        const bool at_once = a.first <= b.last && b.first <= a.last;
        const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
        ASSERT_FALSE(at_once && overlap) << "blocks " << i << " and " << j;
      }
    }
    EXPECT_EQ(end, bytes);
  }
}

TEST(Arena, HasFewGaps) {
  std::mt19937 random(8);
  double sum = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<plan::Block> blocks = random_blocks(random, 80);
    size_t least = 0;  // what lives at one time
    for (int launch = 0; launch < 200; ++launch) {
      size_t live = 0;
      for (const plan::Block& b : blocks)
        if (b.first <= launch && launch <= b.last) live += b.bytes;
      least = std::max(least, live);
    }
    const size_t bytes = plan::place(blocks, /*share=*/true);
    ASSERT_GE(bytes, least);
    sum += static_cast<double>(bytes) / static_cast<double>(least) - 1;
  }
  EXPECT_LT(sum / kRounds, 0.03);
}

TEST(Arena, WithoutSharingEachHasItsOwn) {
  std::vector<plan::Block> blocks{{nullptr, 0, 128, 0, 0}, {nullptr, 0, 64, 5, 5}};
  EXPECT_EQ(plan::place(blocks, /*share=*/false), 192U);
  blocks.clear();
  EXPECT_EQ(plan::place(blocks, /*share=*/true), 0U);
}

/// What a step has changed comes back, on devices with queues as well.
TEST(BeforeStep, IsPutBack) {
  for (const Device device : {Device::cpu(), Device::sim(0)}) {
    Generator generator(5);
    plan::Program program;
    program.device = device;
    program.draws = {{&generator, 3}};
    const Tensor a = full({1000}, 1.5, {.device = device}), b = full({7}, 2, {.device = device});
    const std::vector<Ref<Storage>> written{a.storage(), b.storage()};
    const plan::BeforeStep before(program, written);
    Tensor(a).mul_(3.0);
    Tensor(b).fill_(0);
    generator.set_state({.seed = 5, .offset = 9});
    before.put_back();
    EXPECT_EQ(a.to(Device::cpu()).to_vector<float>(), std::vector<float>(1000, 1.5F));
    EXPECT_EQ(b.to(Device::cpu()).to_vector<float>(), std::vector<float>(7, 2));
    EXPECT_EQ(generator.state(), (RandomKey{.seed = 5, .offset = 0}));
  }
}

/// Two steps that do not fit at one time take turns, and so does what is made between them.
TEST(Arena, IsOthersBetweenSteps) {
  const Device device = Device::sim(0);
  Allocator& memory = Allocator::of(device);
  const auto step = [](const Tensor& x) {
    const Tensor y = x + 1, z = x * 2;
    return sum(exp(y) * z + y);
  };
  auto first = compile(step, {.passes = "-fuse_chains"});
  auto second = compile(step, {.passes = "-fuse_chains"});
  const Tensor x = ones({1000, 300}, {.device = device}), y = ones({1000, 301}, {.device = device});
  const double a = first(x).to(Device::cpu()).item(), b = second(y).to(Device::cpu()).item();
  const int64_t arena = first.stats().arena_bytes;
  ASSERT_GT(arena, int64_t{1} << 20);
  memory.release_cached();
  memory.set_limit(memory.stats().live + 4096);  // both arenas, and little more
  struct Lifted {
    Allocator& memory;
    ~Lifted() { memory.set_limit(0); }
  } const lifted{memory};
  for (int i = 0; i < 3; ++i) {
    const Tensor between = ones({arena * 3 / 16}, {.device = device});  // floats: 3/4 of an arena
    EXPECT_EQ(sum(between).to(Device::cpu()).item(), static_cast<double>(between.numel()));
    EXPECT_EQ(first(x).to(Device::cpu()).item(), a);
    EXPECT_EQ(second(y).to(Device::cpu()).item(), b);
  }
}

}  // namespace
}  // namespace brim
