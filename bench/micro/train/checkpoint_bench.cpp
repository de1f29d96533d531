// What a checkpoint costs the steps around it: blocks of steps with none, with one that the loop
// waits for, and with one in the background, in random order. JSON: seconds a block, medians and
// the sorted ratios to the block without; of one in the background, how long the loop stood still
// for the copy, and how long it took to write with nothing beside it.
//
//   build/bench/checkpoint_bench [FOLDER] [STEPS A BLOCK] [ROUNDS] [MODEL] [BATCH] [THREADS]
#include <brim/core/random.h>
#include <brim/core/threads.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/optim/sgd.h>
#include <brim/plan/compile.h>
#include <brim/train/checkpoint.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <vector>

#include "core/clock.h"

namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  using namespace brim;
  const std::string folder = argc > 1 ? argv[1] : "checkpoints";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 8, rounds = argc > 3 ? std::atoi(argv[3]) : 9;
  const std::string model = argc > 4 ? argv[4] : "resnet18-cifar";
  const int64_t batch = argc > 5 ? std::atoll(argv[5]) : 16;
  if (argc > 6) set_num_threads(std::atoi(argv[6]));  // fewer than cores leave one to the writer
  const std::unique_ptr<nn::Module> net = nn::make_model(model);
  optim::SGD optimizer(net->parameters(), {.lr = 0.01, .momentum = 0.9});
  const Tensor x = rand({batch, 3, 32, 32}), y = zeros({batch}, {.dtype = i64});
  auto step = compile([&](const Tensor& some, const Tensor& labels) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy((*net)(some), labels);
    loss.backward();
    optimizer.step();
    return loss;
  });

  enum Mode { none, waits, background };
  std::array<std::unique_ptr<train::Checkpoint>, 3> checkpoints;
  for (const Mode mode : {waits, background}) {
    const std::string path = folder + (mode == waits ? "/waits" : "/background");
    std::filesystem::remove_all(path);
    checkpoints[mode] = std::make_unique<train::Checkpoint>(
        path, train::CheckpointOptions{.background = mode == background});
    checkpoints[mode]->add("model", *net);
    checkpoints[mode]->add("optimizer", optimizer);
  }
  int64_t done = 0;
  std::vector<double> copies, writes;
  const auto block = [&](Mode mode) {
    const double begin = steady_seconds();
    for (int i = 0; i < steps; ++i) {
      (void)step(x, y).item();
      ++done;
      if (i != 0 || mode == none) continue;
      const double before = steady_seconds();
      checkpoints[mode]->save({0, 0, done});
      if (mode == background) copies.push_back(steady_seconds() - before);
    }
    const double seconds = steady_seconds() - begin;
    if (mode == background && !checkpoints[mode]->finish()) std::exit(1);
    return seconds;
  };
  std::array<std::vector<double>, 3> seconds;
  std::array<Mode, 3> order = {none, waits, background};
  std::mt19937 random(1);
  for (int round = -1; round < rounds; ++round) {
    std::ranges::shuffle(order, random);
    for (const Mode mode : order) {
      const double took = block(mode);
      if (round >= 0) seconds[mode].push_back(took);
    }
  }
  for (int i = 0; i < 5; ++i) {
    const double begin = steady_seconds();
    checkpoints[background]->save({0, 0, ++done});
    if (!checkpoints[background]->finish()) std::exit(1);
    writes.push_back(steady_seconds() - begin);
  }
  const auto ratios = [&](Mode mode) {
    std::vector<double> all;
    for (size_t i = 0; i < seconds[none].size(); ++i)
      all.push_back(seconds[mode][i] / seconds[none][i]);
    std::ranges::sort(all);
    return all;
  };
  fmt::print(
      "{{\"model\": \"{}\", \"batch\": {}, \"steps\": {}, \"seconds\": {{\"none\": {:.4f}, "
      "\"waits\": {:.4f}, \"background\": {:.4f}}}, \"ratios\": {{\"waits\": [{:.4f}], "
      "\"background\": [{:.4f}]}}, \"copy\": {:.4f}, \"write\": {:.4f}}}\n",
      model, batch, steps, median(seconds[none]), median(seconds[waits]),
      median(seconds[background]), fmt::join(ratios(waits), ", "),
      fmt::join(ratios(background), ", "), median(copies), median(writes));
  return 0;
}
