// Which gradients are reduced together, and when the two streams of a plan wait for each other.
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "plan/buckets.h"
#include "plan/memory.h"
#include "plan/recorder.h"
#include "plan/stream_order.h"

namespace brim::plan {
namespace {

double end_of(const std::vector<ReadyBytes>& ready, const std::vector<size_t>& ends, double latency,
              double per_byte) {
  double at = 0;
  size_t begin = 0;
  for (const size_t end : ends) {
    at = std::max(at, ready[end - 1].seconds) + latency;
    for (size_t i = begin; i < end; ++i) at += ready[i].bytes * per_byte;
    begin = end;
  }
  return at;
}

TEST(Buckets, AreTheBestOfAll) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t count = 1 + random() % 9;
    std::vector<ReadyBytes> ready;
    double seconds = 0;
    for (size_t i = 0; i < count; ++i)
      ready.push_back({seconds += random() % 50, static_cast<double>(random() % 1000)});
    const double latency = random() % 20, per_byte = 0.001 * (random() % 200);
    double best = std::numeric_limits<double>::infinity();
    for (unsigned cuts = 0; cuts < 1U << (count - 1); ++cuts) {
      std::vector<size_t> ends;
      for (size_t i = 1; i < count; ++i)
        if (cuts >> (i - 1) & 1U) ends.push_back(i);
      ends.push_back(count);
      best = std::min(best, end_of(ready, ends, latency, per_byte));
    }
    const std::vector<size_t> ends = solve_buckets(ready, latency, per_byte);
    ASSERT_EQ(ends.back(), count);
    EXPECT_NEAR(end_of(ready, ends, latency, per_byte), best, 1e-9 * best);
  }
}

TEST(Buckets, AreFewWhereTimesAreEqual) {
  EXPECT_EQ(solve_buckets(std::vector<ReadyBytes>{{1, 8}, {1, 8}, {1, 8}}, 0, 0),
            std::vector<size_t>{3});
  // The first is done long before the second is ready.
  EXPECT_EQ(solve_buckets(std::vector<ReadyBytes>{{1, 100}, {1000, 8}}, 1, 1),
            (std::vector<size_t>{1, 2}));
  EXPECT_TRUE(solve_buckets({}, 1, 1).empty());
}

/// 1 s for each 8 bytes, and 1 s besides.
TEST(Buckets, ByTheRulesOfOthers) {
  const std::vector<ReadyBytes> ready = {{1, 8}, {2, 8}, {2.5, 8}, {9, 8}, {9, 8}};
  const backend::Communication link{.latency = 1, .seconds_per_byte = 1.0 / 8, .settle = {}};
  const auto chosen = [&](BucketRule::Kind kind, double bytes) {
    bucket_rule = {.kind = kind, .bytes = bytes};
    const std::string text = text_of(choose_buckets(ready, link, 10));
    bucket_rule.reset();
    return text;
  };
  EXPECT_EQ(chosen(BucketRule::Kind::filled, 1), "0|1|2|3|4");
  EXPECT_EQ(chosen(BucketRule::Kind::filled, 9), "0,1|2,3|4");
  EXPECT_EQ(chosen(BucketRule::Kind::filled, 1000), "0,1,2,3,4");
  // The first is reduced after 3 s, when two more are ready; they are after 6 s.
  EXPECT_EQ(chosen(BucketRule::Kind::ready, 1000), "0|1,2|3,4");
  EXPECT_EQ(chosen(BucketRule::Kind::ready, 15), "0|1|2|3|4");
}

/// a -> b; c and d need a alone; e needs b and d.
Program program_of_five() {
  const Tensor x = ones({1000});
  return record(
             [](std::span<const Tensor> in) {
               const Tensor a = in[0] + 1, b = a * 2, c = a * 3, d = c * c, e = b + d;
               return std::vector<Tensor>{e};
             },
             std::span(&x, 1), false)
      .program;
}

TEST(StreamOrder, LaunchesWaitOnlyForWhatTheyNeed) {
  Program program = program_of_five();
  ASSERT_EQ(program.launches.size(), 5U);
  EXPECT_FALSE(StreamOrder(program).has_side_streams());
  program.launches[1]->stream = PlanStream::collectives;
  const StreamOrder order(program);
  EXPECT_TRUE(order.has_side_streams());
  for (const size_t i : {0, 1, 2, 3}) EXPECT_TRUE(order.waits_for(i).empty()) << i;
  ASSERT_EQ(order.waits_for(4).size(), 1U);
  EXPECT_EQ(order.waits_for(4)[0], 1);
  EXPECT_EQ(order.runs_beside(1), 3);
  EXPECT_EQ(order.runs_beside(3), 3);
}

TEST(StreamOrder, LaunchesWaitForWhatTheyName) {
  Program program = program_of_five();
  program.launches[1]->stream = PlanStream::to_host;
  program.launches[2]->stream = PlanStream::to_device;
  program.launches[3]->waits_for = {program.launches[1].get()};
  const StreamOrder order(program);
  // d needs c, of another stream, and names b.
  ASSERT_EQ(order.waits_for(3).size(), 2U);
  EXPECT_EQ(order.waits_for(3)[0], 1);
  EXPECT_EQ(order.waits_for(3)[1], 2);
  EXPECT_TRUE(order.waits_for(4).empty()) << "both were waited for";
  EXPECT_EQ(order.runs_beside(1), 2);
  EXPECT_EQ(order.runs_beside(2), 2);
}

TEST(StreamOrder, LaunchesWaitForTheirOwnStreamIfTheyNameIt) {
  for (const bool names : {false, true}) {
    Program program = program_of_five();
    program.launches[1]->stream = program.launches[2]->stream = PlanStream::to_host;
    if (names) program.launches[2]->waits_for = {program.launches[1].get()};
    const StreamOrder order(program);
    const std::span<const int> waits = order.waits_for(2);
    EXPECT_EQ(std::vector<int>(waits.begin(), waits.end()),
              names ? std::vector{1} : std::vector<int>{});
    EXPECT_EQ(order.runs_beside(1), names ? 1 : 2);
  }
}

TEST(StreamOrder, MemoryOfTheSideStreamIsNobodyElses) {
  Program program = program_of_five();
  program.launches[1]->stream = PlanStream::collectives;
  const MemoryPlan plan = plan_memory(program, /*share=*/true);
  const auto block = [&](size_t launch, const char* operand) {
    const Storage* const storage = program.launches[launch]->operand(operand).storage().get();
    for (const Block& b : plan.blocks)
      if (b.storage == storage) return b;
    throw std::runtime_error("no block");
  };
  // c may not be written over a, which b's launch still reads: it would be without it.
  const Block a = block(0, "y"), c = block(2, "y"), d = block(3, "y");
  EXPECT_NE(a.offset, c.offset);
  EXPECT_NE(a.offset, d.offset);
}

}  // namespace
}  // namespace brim::plan
