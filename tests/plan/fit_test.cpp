// What is kept, moved and computed again: against the best of all choices, and against counting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "plan/fit.h"

namespace brim::plan {
namespace {

/// Layers forward and backward: what layer i makes is read by the next one, and again on the way
/// back.
FitProblem chain(const std::vector<int64_t>& bytes, double layer, double copy_per_byte,
                 double recompute) {
  const int layers = static_cast<int>(bytes.size());
  FitProblem p;
  p.seconds.assign(2 * static_cast<size_t>(layers), layer);
  p.others.assign(p.seconds.size(), 0);
  for (int i = 0; i < layers; ++i) {
    const int64_t size = bytes[static_cast<size_t>(i)];
    const double copy = copy_per_byte * static_cast<double>(size);
    p.activations.push_back({.bytes = size,
                             .made_by = i,
                             .last_before = std::min(i + 1, layers - 1),
                             .first_after = 2 * layers - 1 - i,
                             .last_use = 2 * layers - 1 - i,
                             .to_host = copy,
                             .to_device = copy,
                             .recompute = recompute,
                             .made_of = i > 0 ? std::vector<int>{i - 1} : std::vector<int>{}});
  }
  return p;
}

FitProblem random_problem(std::mt19937& random, bool may_round) {
  std::uniform_real_distribution<double> zero_to_one(0, 1);
  std::vector<int64_t> bytes(3 + random() % 5);
  for (int64_t& b : bytes) b = 1 + static_cast<int64_t>(random() % 40);
  FitProblem p = chain(bytes, 1, 0.2 * zero_to_one(random), 0);
  for (double& s : p.seconds) s = 0.2 + zero_to_one(random);
  for (Activation& a : p.activations) {
    a.recompute = random() % 4 == 0 ? kImpossible : 0.1 + 2 * zero_to_one(random);
    if (random() % 5 == 0) a.to_host = a.to_device = kImpossible;
  }
  p.may_round = may_round;
  for (Activation& a : p.activations) {
    if (random() % 3 == 0) {
      a.to_mask = a.from_mask = 0.2 * zero_to_one(random);
      a.mask_bytes = 1 + a.bytes / 32;
    }
    if (may_round && random() % 4 != 0) a.to_bf16 = a.from_bf16 = 0.3 * zero_to_one(random);
  }
  int64_t all = 0;
  for (const int64_t b : bytes) all += b;
  p.limit = static_cast<int64_t>((0.3 + 0.6 * zero_to_one(random)) * static_cast<double>(all));
  return p;
}

/// Of all choices that there are; infinite where none fits.
double least_seconds(const FitProblem& p) {
  double least = kImpossible;
  std::vector<Choice> choices(p.activations.size(), Choice::keep);
  const size_t ways = p.may_round ? 6 : 4;
  size_t count = 1;
  for (size_t t = 0; t < choices.size(); ++t) count *= ways;
  for (size_t number = 0; number < count; ++number) {
    size_t rest = number;
    bool is_possible = true;
    for (size_t t = 0; t < choices.size(); ++t, rest /= ways) {
      choices[t] = static_cast<Choice>(rest % ways);
      is_possible &= p.activations[t].seconds_of(choices[t]) != kImpossible;
    }
    if (!is_possible) continue;
    if (const Schedule s = schedule(p, choices); s.fits) least = std::min(least, s.seconds);
  }
  return least;
}

/// Of problems with up to so many activations, of so many that are drawn.
void expect_near_the_best(bool may_round, size_t activations, int rounds) {
  std::mt19937 random(3);
  double sum = 0, worst = 0;
  int solved = 0;
  for (int round = 0; round < rounds; ++round) {
    const FitProblem p = random_problem(random, may_round);
    if (p.activations.size() > activations) continue;
    const double best = least_seconds(p);
    const double all = std::accumulate(p.seconds.begin(), p.seconds.end(), 0.0);
    ASSERT_LE(all + step_bound(p), best * (1 + 1e-9)) << "round " << round;
    const auto choices = solve(p);
    ASSERT_EQ(!choices.empty(), best != kImpossible) << "round " << round;
    if (choices.empty()) continue;
    const Schedule s = schedule(p, choices[0]);
    ASSERT_TRUE(s.fits);
    ASSERT_LE(s.peak, p.limit);
    ++solved;
    sum += s.seconds / best - 1;
    worst = std::max(worst, s.seconds / best - 1);
  }
  EXPECT_GT(solved, 200);
  EXPECT_LT(sum / solved, 0.001) << "worst " << worst;
  EXPECT_LT(worst, 0.03);
}

TEST(Fit, IsNearTheBestOfAllChoices) { expect_near_the_best(/*may_round=*/false, 6, 600); }
TEST(Fit, IsNearTheBestOfThoseThatRound) { expect_near_the_best(/*may_round=*/true, 4, 2000); }

TEST(Fit, RoundsOnlyWhereItMayAndHalfHasRoom) {
  FitProblem p = chain({10, 10, 10, 10, 10, 10}, 1, kImpossible, kImpossible);
  for (Activation& a : p.activations) {
    a.to_host = a.to_device = kImpossible;
    a.to_bf16 = a.from_bf16 = 0.01;
  }
  p.limit = 50;
  EXPECT_TRUE(solve(p).empty());
  p.may_round = true;
  const auto choices = solve(p);
  ASSERT_FALSE(choices.empty());
  const Schedule s = schedule(p, choices[0]);
  EXPECT_LE(s.peak, 50);
  const auto rounded = std::ranges::count(choices[0], Choice::keep_bf16);
  EXPECT_GE(rounded, 2);
  EXPECT_NEAR(s.seconds, 12 + 0.02 * static_cast<double>(rounded), 1e-9);
}

TEST(Fit, KeepsMasksOfWhatNothingIsMadeOf) {
  FitProblem p = chain({32, 32, 32, 32, 32, 32}, 1, kImpossible, 0.1);
  for (Activation& a : p.activations) a.to_host = a.to_device = kImpossible;
  p.activations[2].to_mask = p.activations[2].from_mask = 0.01;
  p.activations[2].mask_bytes = 1;
  std::vector<Choice> choices(6, Choice::keep);
  choices[2] = Choice::keep_mask;
  p.limit = 5 * 32 + 1;
  const Schedule s = schedule(p, choices);
  EXPECT_TRUE(s.fits);
  EXPECT_EQ(s.peak, p.limit);
  EXPECT_NEAR(s.seconds, 12.02, 1e-9);
  EXPECT_EQ(solve(p).at(0), choices);
  choices[3] = Choice::recompute;  // of the values that are gone
  EXPECT_FALSE(schedule(p, choices).fits);
}

TEST(Fit, CopiesHalfWhereTheLinkIsSlow) {
  FitProblem p = chain({10, 10, 10, 10, 10, 10}, 1, 1, kImpossible);
  for (Activation& a : p.activations) a.to_bf16 = a.from_bf16 = 0.01;
  p.limit = 25;
  const double exact = schedule(p, solve(p).at(0)).seconds;
  p.may_round = true;
  const auto choices = solve(p).at(0);
  EXPECT_LT(schedule(p, choices).seconds, 0.75 * exact);
  EXPECT_GT(std::ranges::count(choices, Choice::offload_bf16), 0);
  EXPECT_EQ(p.activations[0].bytes_of(Choice::offload_bf16), 5);
}

TEST(Fit, KeepsAllWhereThereIsRoom) {
  FitProblem p = chain({10, 10, 10, 10}, 1, 0.01, 0.1);
  p.limit = 40;
  const auto choices = solve(p);
  ASSERT_FALSE(choices.empty());
  EXPECT_EQ(choices[0], std::vector<Choice>(4, Choice::keep));
  EXPECT_DOUBLE_EQ(schedule(p, choices[0]).seconds, 8);
}

TEST(Fit, HidesCopiesBehindOtherLayers) {
  FitProblem p = chain(std::vector<int64_t>(12, 10), 1, 0.09, kImpossible);  // 0.9 s a copy
  p.limit = 80;
  const auto choices = solve(p);
  ASSERT_FALSE(choices.empty());
  const Schedule s = schedule(p, choices[0]);
  EXPECT_NEAR(s.seconds, 24, 1e-9);  // nothing is waited for
  EXPECT_EQ(std::ranges::count(choices[0], Choice::offload), 4);
  // As late as they can be: a fetch begins at most two layers ahead.
  for (const Schedule::Trip& trip : s.trips)
    EXPECT_TRUE(trip.fetched_at < 0 || trip.fetched_at >= trip.needed_by - 2);
}

TEST(Fit, ComputesAgainWhatIsCheaperThanItsCopies) {
  FitProblem p = chain(std::vector<int64_t>(8, 10), 1, 1, 0.05);  // a copy takes ten layers
  p.limit = 60;
  const auto choices = solve(p);
  ASSERT_FALSE(choices.empty());
  EXPECT_EQ(std::ranges::count(choices[0], Choice::offload), 0);
  EXPECT_LT(schedule(p, choices[0]).seconds, 16.5);
}

TEST(Fit, WaitsForTheLinkWhereItMust) {
  FitProblem p = chain(std::vector<int64_t>(6, 10), 1, 0.3, kImpossible);  // 3 s a copy
  p.limit = 30;
  const auto choices = solve(p);
  ASSERT_FALSE(choices.empty());
  const Schedule s = schedule(p, choices[0]);
  EXPECT_GT(s.waiting, 0);
  EXPECT_NEAR(s.seconds, 12 + s.waiting, 1e-9);
}

TEST(Fit, HidesNothingInTurn) {
  FitProblem p = chain(std::vector<int64_t>(12, 10), 1, 0.09, kImpossible);
  p.limit = 80;
  p.in_turn = true;
  const auto choices = solve(p);
  ASSERT_FALSE(choices.empty());
  const Schedule s = schedule(p, choices[0]);
  EXPECT_TRUE(s.fits);
  const auto moved = static_cast<double>(std::ranges::count(choices[0], Choice::offload));
  EXPECT_GE(moved, 3);
  EXPECT_NEAR(s.seconds, 24 + moved * 1.8, 1e-9);
}

TEST(Fit, MovesNoMoreThanTheHostHasRoomFor) {
  FitProblem p = chain(std::vector<int64_t>(12, 10), 1, 0.01, 0.8);
  p.limit = 70;
  const auto moved = [&](const std::vector<Choice>& choices) {
    return std::ranges::count(choices, Choice::offload);
  };
  ASSERT_FALSE(solve(p).empty());
  EXPECT_GE(moved(solve(p)[0]), 4);
  p.host_limit = 25;
  const auto choices = solve(p);
  ASSERT_FALSE(choices.empty());
  EXPECT_EQ(moved(choices[0]), 2);  // the others are computed again
  EXPECT_TRUE(schedule(p, choices[0]).fits);
  for (Activation& a : p.activations) a.recompute = kImpossible;
  EXPECT_TRUE(solve(p).empty());
}

TEST(Fit, TellsWhatTheLinkCostsAtLeast) {
  FitProblem p = chain(std::vector<int64_t>(6, 10), 1, 0.3, kImpossible);  // 3 s a copy
  p.limit = 100;
  EXPECT_EQ(link_bound(p), 0);
  p.limit = 30;
  // At launch 5 all six live: 30 bytes are gone 9 s after the start, which it comes at after 5, and
  // back in 9 s, of which 6 are left behind it.
  EXPECT_NEAR(link_bound(p), (9 - 5) + (9 - 6), 1e-9);
  EXPECT_GE(schedule(p, solve(p)[0]).seconds, 12 + link_bound(p));
}

TEST(Fit, TellsWhatAnyChoiceCostsAtLeast) {
  FitProblem p = chain(std::vector<int64_t>(6, 10), 1, 0.3, kImpossible);  // 3 s a copy
  p.limit = 30;
  EXPECT_NEAR(step_bound(p), link_bound(p), 1e-9);
  for (Activation& a : p.activations) a.recompute = 0.5;
  // At launch 5 four wait, of which three have to go: 5 s move 16.7 bytes, 6 s bring back 20.
  EXPECT_NEAR(step_bound(p), 0.5 * (30 - 5 / 0.3) / 10, 1e-6);
  p.activations[1].from_mask = 0.1;  // of what is cheaper first
  EXPECT_NEAR(step_bound(p), 0.1 + 0.5 * (20 - 5 / 0.3) / 10, 1e-6);
  p.limit = 5;
  EXPECT_EQ(step_bound(p), kImpossible);
}

TEST(Fit, TellsTheLeastLimit) {
  FitProblem p = chain({10, 20, 30}, 1, 0.01, kImpossible);
  const int64_t least = least_limit(p);
  EXPECT_EQ(least, 50);  // a layer's input and what it makes
  p.limit = least;
  EXPECT_FALSE(solve(p).empty());
  p.limit = least - 1;
  EXPECT_TRUE(solve(p).empty());

  for (Activation& a : p.activations) {
    a.to_host = a.to_device = kImpossible;
    a.to_mask = a.from_mask = 0.1;
    a.mask_bytes = 1;
  }
  p.limit = least_limit(p);
  EXPECT_LT(p.limit, 60);  // all three
  EXPECT_FALSE(solve(p).empty());
}

/// What is computed again needs what it is made of, which may have to be made again itself.
TEST(Fit, FollowsWhatIsComputedAgain) {
  FitProblem p = chain({10, 10, 10, 10}, 1, kImpossible, 1);
  for (Activation& a : p.activations) a.to_host = a.to_device = kImpossible;
  std::vector<Choice> choices{Choice::keep, Choice::recompute, Choice::recompute, Choice::keep};
  const Needs needs = needs_of(p, choices);
  EXPECT_EQ(needs.needed_by[2], 5);
  EXPECT_EQ(needs.needed_by[1], 5);  // for the one above, a launch sooner
  EXPECT_EQ(needs.last_use[1], 6);
  p.limit = 1000;
  EXPECT_DOUBLE_EQ(schedule(p, choices).seconds, 10);
}

}  // namespace
}  // namespace brim::plan
