// Which networks `brim shrink` tries for limits, where a whole network takes another time than its
// layers alone.
#include "command/shrink_path.h"

#include <gtest/gtest.h>

#include <cmath>

namespace brim::command {
namespace {

/// Four layers of 10 us in one width, dense 60 us: each can be 8, 5 or 2 us at a rising distance.
ShrinkState state_of_layers() {
  ShrinkState state;
  ShrunkWidth width{.seconds = 60e-6, .bytes = 4'000, .hash = "w"};
  for (int i = 0; i < 4; ++i) {
    compress::LayerCosts layer{.name = std::to_string(i), .shape = {8, 8}};
    layer.forms.push_back({.form = {}, .seconds = 10e-6, .bytes = 1'000});
    for (int f = 1; f <= 3; ++f)
      layer.forms.push_back({.form = {.sparsity = 0.25 * f},
                             .seconds = (11 - 3 * f) * 1e-6,
                             .bytes = 1'000 - 250 * f,
                             .distance = (1 + 0.1 * i) * f * f});
    width.layers.push_back(std::move(layer));
  }
  state.widths.push_back(std::move(width));
  state.points.push_back({.seconds = 60e-6, .bytes = 4'000});
  return state;
}

/// What is found if a whole network takes this for what was predicted.
std::optional<PlannedNetwork> found(const ShrinkState& state, const ShrinkTarget& target,
                                    double (*seconds_of)(double predicted), int* tried = nullptr) {
  const ShrinkPath path(state, target);
  ShrinkCandidates candidates(state, target, path);
  int count = 0;
  while (const std::optional<PlannedNetwork> network = candidates.next()) {
    ++count;
    candidates.took(*network, {.seconds = seconds_of(network->seconds), .bytes = network->bytes});
  }
  if (tried) *tried = count;
  return candidates.found();
}

TEST(ShrinkCandidates, TightenWhatWasMissed) {
  const ShrinkState state = state_of_layers();
  const auto slower = [](double predicted) { return 1.2 * predicted; };
  const auto network = found(state, {.seconds = 50e-6}, slower);
  ASSERT_TRUE(network);
  EXPECT_LE(1.2 * network->seconds, 50e-6);
  EXPECT_GT(1.2 * network->seconds, 40e-6);
}

TEST(ShrinkCandidates, UseWhatIsLeft) {
  const ShrinkState state = state_of_layers();
  // No network takes less than 28 us by its layers; but as a whole it takes a third of that.
  const auto faster = [](double predicted) { return predicted / 3; };
  int tried = 0;
  const auto network = found(state, {.seconds = 15e-6}, faster, &tried);
  ASSERT_TRUE(network);
  EXPECT_LE(network->seconds / 3, 15e-6);
  EXPECT_GT(network->seconds / 3, 12e-6) << "the cheapest one takes 9.3 us";
  EXPECT_LE(tried, 9);
}

TEST(ShrinkCandidates, SayWhichCameNearest) {
  const ShrinkState state = state_of_layers();
  const ShrinkTarget target{.seconds = 1e-6};
  const ShrinkPath path(state, target);
  ShrinkCandidates candidates(state, target, path);
  int tried = 0;
  while (const std::optional<PlannedNetwork> network = candidates.next()) {
    candidates.took(*network, {.seconds = network->seconds, .bytes = network->bytes});
    ASSERT_LE(++tried, 8);
  }
  EXPECT_GT(tried, 0);
  EXPECT_FALSE(candidates.found());
  ASSERT_TRUE(candidates.nearest());
  EXPECT_NEAR(candidates.nearest()->seconds, 28e-6, 1e-9);
}

}  // namespace
}  // namespace brim::command
