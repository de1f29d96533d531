// Training steps of the tutorial network: forward, loss, backward and update, data in memory.
#include <memory>
#include <utility>
#include <vector>

#include <brim/nn/models.h>
#include <brim/ops/binary.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/optim/sgd.h>

#include "cli/bench/cases.h"

namespace brim::cli {
namespace {

constexpr size_t kBatches = 16;

std::function<void()> tutorial_step(int64_t batch) {
  struct Run {
    nn::TutorialCnn net;
    optim::SGD optimizer{net.named_parameters(), {.lr = 0.001, .momentum = 0.9}};
    std::vector<std::pair<Tensor, Tensor>> batches;
    size_t next = 0;
  };
  manual_seed(0);
  auto run = std::make_shared<Run>();
  for (size_t i = 0; i < kBatches; ++i)
    run->batches.emplace_back(rand({batch, 3, 32, 32}) * 2 - 1, randint(0, 10, {batch}));
  return [run] {
    const auto& [images, labels] = run->batches[run->next];
    run->next = (run->next + 1) % kBatches;
    run->optimizer.zero_grad();
    cross_entropy(run->net(images), labels).backward();
    run->optimizer.step();
  };
}

}  // namespace

std::vector<BenchCase> training_cases() {
  return {
      {"tutorial-b4", "training step of the tutorial network, batch 4",
       [] { return tutorial_step(4); }},
      {"tutorial-b128", "training step of the tutorial network, batch 128",
       [] { return tutorial_step(128); }},
  };
}

}  // namespace brim::cli
