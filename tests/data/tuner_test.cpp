// The tuner's rules, on windows made up for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/loader/tuner.h"

namespace brim::data {
namespace {

// A machine on which a batch costs a worker `work` seconds and the loop `step` seconds, and where
// no more than `cpus` workers get on at the same time.
struct Machine {
  double work, step;
  int cpus;

  MeasurementWindow run(const LoaderSizes& sizes) const {
    const double made = std::min(sizes.workers, cpus) / work;
    const double rate = std::min(made, 1 / step);
    const double seconds = 100 / rate;
    return {100, seconds, std::max(0.0, seconds - 100 * step),
            std::max(0.0, sizes.workers * seconds - 100 * work)};
  }
};

struct Lines {
  std::vector<std::string> lines;
  auto sink() {
    return [this](const std::string& line) { lines.push_back(line); };
  }
};

TEST(Tuner, AddsWorkersUntilTheLoopNoLongerWaits) {
  Lines log;
  Tuner tuner({1, 4}, {1, 16, 64}, log.sink());
  const Machine machine{0.010, 0.002, 16};  // five workers keep the loop busy
  for (int i = 0; i < 40; ++i) tuner.observe(machine.run(tuner.sizes()));
  EXPECT_EQ(tuner.sizes().workers, 5);
  EXPECT_GE(tuner.sizes().slots, 12);
  ASSERT_EQ(log.lines.size(), 4u);  // and no more once it has come to rest
  EXPECT_EQ(log.lines[0],
            "2 workers, 6 slots instead of 1 worker, 4 slots: the loop waited 80 % of the time");
}

TEST(Tuner, TakesBackWhatDoesNotHelp) {
  Lines log;
  Tuner tuner({2, 8}, {1, 16, 8}, log.sink());
  const Machine machine{0.010, 0.001, 3};  // three CPUs: a fourth worker gains nothing
  for (int i = 0; i < 40; ++i) tuner.observe(machine.run(tuner.sizes()));
  EXPECT_EQ(tuner.sizes(), (LoaderSizes{3, 8}));
  ASSERT_EQ(log.lines.size(), 3u);
  EXPECT_EQ(log.lines[2],
            "back to 3 workers, 8 slots: 300.0 batches/s with 4 workers, 8 slots, 300.0 before");
}

TEST(Tuner, RemovesIdleWorkers) {
  Lines log;
  Tuner tuner({7, 16}, {1, 8, 64}, log.sink());
  const Machine machine{0.010, 0.009, 8};
  for (int i = 0; i < 40; ++i) tuner.observe(machine.run(tuner.sizes()));
  EXPECT_EQ(tuner.sizes().workers, 2);  // with one the loop would wait
  EXPECT_EQ(log.lines.size(), 5u);
  EXPECT_NE(log.lines[0].find("5.9 of the workers had nothing to do"), std::string::npos)
      << log.lines[0];
}

TEST(Tuner, AWorkerThatWasMissedComesBackForGood) {
  Tuner tuner({3, 8}, {1, 8, 8});
  tuner.observe({100, 1, 0, 2});  // two of three idle
  EXPECT_EQ(tuner.sizes().workers, 2);
  tuner.observe({80, 1, 0, 0});  // but slower
  EXPECT_EQ(tuner.sizes().workers, 3);
  for (int i = 0; i < 10; ++i) tuner.observe({100, 1, 0, 2});
  EXPECT_EQ(tuner.sizes().workers, 3);
}

TEST(Tuner, AddsSlotsWhenWorkersLackThem) {
  Lines log;
  Tuner tuner({4, 6}, {4, 4, 20}, log.sink());
  double rate = 100;
  for (int i = 0; i < 5; ++i) tuner.observe({static_cast<int64_t>(rate *= 1.1), 1, 0.2, 2});
  EXPECT_EQ(tuner.sizes().slots, 20);
  ASSERT_EQ(log.lines.size(), 2u);
  EXPECT_EQ(log.lines[0],
            "4 workers, 12 slots instead of 4 workers, 6 slots: the loop waited 20 % of the time "
            "although workers "
            "had nothing to do");
  Tuner steady({4, 6}, {4, 4, 20});
  for (int i = 0; i < 5; ++i) steady.observe({100, 1, 0.2, 2});
  EXPECT_EQ(steady.sizes().slots, 6);  // tried, and of no use
}

TEST(Tuner, KeepsWithinItsLimits) {
  EXPECT_FALSE(Tuner({2, 4}, {2, 2, 4}).active());
  EXPECT_FALSE(Tuner({0, 1}, {1, 8, 64}).active());
  EXPECT_TRUE(Tuner({2, 4}, {2, 2, 8}).active());
  Tuner fixed({2, 4}, {2, 2, 4});
  for (const MeasurementWindow& s :
       {MeasurementWindow{100, 1, 0.9, 0}, MeasurementWindow{100, 1, 0.9, 2},
        MeasurementWindow{100, 1, 0, 2}})
    EXPECT_EQ(fixed.observe(s), (LoaderSizes{2, 4}));
}

TEST(Tuner, ShortStretchesTellNothing) {
  EXPECT_FALSE((MeasurementWindow{1000, 0.1, 0, 0}.has_enough_samples()));
  EXPECT_FALSE((MeasurementWindow{3, 10, 0, 0}.has_enough_samples()));
  EXPECT_TRUE((MeasurementWindow{16, 0.5, 0, 0}.has_enough_samples()));
}

}  // namespace
}  // namespace brim::data
