// Checkpoints of loops that several ranks run: one writes, and all go on from it.
#include <brim/train/checkpoint.h>

#include <gtest/gtest.h>

#include <cmath>

#include <brim/brim.h>

#include "message_of.h"
#include "temporary_folder.h"

namespace brim::train {
namespace {

/// Steps of two ranks up to `end`, and all that rank 0 then has.
std::vector<double> of_ranks(const std::string& run, int64_t begins_at, int64_t end,
                             bool background) {
  std::vector<double> all;
  manual_seed(8);
  dist::run_ranks(dist::local_groups(2), [&](dist::ProcessGroup& group) {
    nn::Dropout drop({.p = 0.5});
    nn::Linear net({.in = 6, .out = 3});
    optim::SGD optimizer(net.named_parameters(), {.lr = 0.05, .momentum = 0.9});
    double sum = 0;
    Checkpoint checkpoint(run, group.shared_from_this(),
                          {.every_steps = 2, .background = background});
    checkpoint.add("model", net);
    checkpoint.add("optimizer", optimizer);
    checkpoint.add("sum", sum);
    LoopPosition at = checkpoint.resume();
    EXPECT_EQ(at.steps, begins_at);
    EXPECT_EQ(checkpoint.resumed_from().empty(), begins_at == 0);
    dist::DataParallel parallel(net, group.shared_from_this());
    for (; at.steps < end;) {
      const double x = static_cast<double>(at.steps * 2 + group.rank());
      sum += parallel
                 .forward_backward([&](int64_t) {
                   return net(drop(full({4, 6}, std::sin(x)))).sum();
                 })
                 .item();
      optimizer.step();
      ++at.steps;
      if (checkpoint.due(at)) checkpoint.save(at);
    }
    EXPECT_TRUE(checkpoint.finish());
    EXPECT_EQ(checkpoint.written() > 0, group.rank() == 0);
    if (group.rank() > 0) return;
    all.push_back(sum);
    for (const StateDict& state : {net.state_dict(), optimizer.state_dict()})
      for (const auto& [_, tensor] : state) {
        const std::vector<double> values = tensor.to(f64).to_vector<double>();
        all.insert(all.end(), values.begin(), values.end());
      }
  });
  return all;
}

TEST(RanksCheckpoint, RanksGoOnTogether) {
  const tests::TemporaryFolder folder;
  const std::string run = folder / "run";
  for (const bool background : {false, true}) {
    const std::string at = run + (background ? "-background" : ""), whole = at + "-whole";
    const std::vector<double> expected = of_ranks(whole, 0, 7, background);
    (void)of_ranks(at, 0, 5, background);
    EXPECT_EQ(of_ranks(at, 4, 7, background), expected);
  }
  // Nobody waits for a rank 0 that may not write.
  Checkpoint holder(run + "-whole");
  EXPECT_NE(
      tests::message_of([&] { of_ranks(run + "-whole", 6, 7, false); }).find("is training in"),
      std::string::npos);
}

}  // namespace
}  // namespace brim::train
