// The samples that a network is most wrong about, against a sort on the host.
#include <brim/ops/create.h>
#include <brim/ops/softmax.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "train/most_wrong.h"

namespace brim::train {
namespace {

class MostWrongTest : public ::testing::TestWithParam<const char*> {
 protected:
  Device device{GetParam()};
};

TEST_P(MostWrongTest, AreThoseOfTheHighestLoss) {
  manual_seed(3);
  const Tensor output = randn({50, 4}) * 3, y = randint(0, 4, {50});
  MostWrong worst(7);
  for (int64_t first = 0; first < 50; first += 20) {
    const int64_t end = std::min<int64_t>(first + 20, 50);
    std::vector<int64_t> samples;
    for (int64_t i = first; i < end; ++i) samples.push_back(1000 - i);
    worst.add(output.slice(0, first, end).to(device), y.slice(0, first, end).to(device), samples);
  }
  const std::vector<float> logs = log_softmax(output, 1).to_vector<float>();
  const std::vector<int64_t> is = y.to_vector<int64_t>();
  std::vector<Evaluation::Wrong> expected;
  for (size_t i = 0; i < 50; ++i) {
    const float* const row = logs.data() + 4 * i;
    const auto said = std::max_element(row, row + 4) - row;
    if (said != is[i])
      expected.push_back({.sample = 1000 - static_cast<int64_t>(i),
                          .is = is[i],
                          .said = said,
                          .probability = std::exp(row[said]),
                          .loss = -row[is[i]]});
  }
  std::ranges::sort(expected, std::greater(), &Evaluation::Wrong::loss);
  const std::vector<Evaluation::Wrong> found = worst.read();
  ASSERT_EQ(found.size(), 7U);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].sample, expected[i].sample);
    EXPECT_EQ(found[i].is, expected[i].is);
    EXPECT_EQ(found[i].said, expected[i].said);
    EXPECT_NEAR(found[i].probability, expected[i].probability, 1e-5);
    EXPECT_NEAR(found[i].loss, expected[i].loss, 1e-4);
  }
}

TEST_P(MostWrongTest, WhatIsRightOrNoNumberIsLeftOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor output = Tensor::from<float>({9, 0, nan, 0, 0, 9, 1, 1}, {4, 2}).to(device);
  const Tensor y = Tensor::from<int64_t>({0, 1, 0, 1}, {4}).to(device);
  MostWrong worst(16);
  EXPECT_TRUE(worst.read().empty());
  const std::vector<int64_t> samples = {4, 5, 6, 7};
  worst.add(output, y, samples);
  const std::vector<Evaluation::Wrong> found = worst.read();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].sample, 6);
  EXPECT_EQ(found[1].sample, 7);  // a tie is for the first class
}

TEST_P(MostWrongTest, OtherTasksHaveNone) {
  const std::vector<int64_t> samples = {0, 1};
  MostWrong worst(4), none(0);
  worst.add(zeros({2, 3}, {.device = device}), zeros({2, 3}, {.device = device}), samples);
  worst.add(zeros({2, 3, 4, 4}, {.device = device}), zeros({2}, {.dtype = i64, .device = device}),
            samples);
  worst.add(zeros({2, 3}, {.device = device}), Tensor(), samples);
  none.add(zeros({2, 3}, {.device = device}), ones({2}, {.dtype = i64, .device = device}), samples);
  EXPECT_TRUE(worst.read().empty());
  EXPECT_TRUE(none.read().empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, MostWrongTest, ::testing::Values("cpu", "sim:0"));

}  // namespace
}  // namespace brim::train
