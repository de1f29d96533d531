// What eager training holds of memory where each step has another shape: a language model with
// random batches and lengths, a CNN with random batches and picture sizes. JSON: bytes that the
// device's runtime gave at most, beside the most that tensors held, and seconds a step.
//
//   build/bench/changing_shapes_bench [STEPS] [DEVICE]
#include <brim/core/allocator.h>
#include <brim/nn/container.h>
#include <brim/nn/language_model.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/shape.h>
#include <brim/optim/sgd.h>
#include <fmt/format.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "core/clock.h"

namespace {

using namespace brim;

void train(const char* name, nn::Module& net, int steps, Device device,
           const std::function<Tensor(std::mt19937&)>& loss) {
  optim::SGD optimizer(net.parameters(), {.lr = 0.001, .momentum = 0.9});
  std::mt19937 random(1);
  Allocator& memory = Allocator::of(device);
  memory.release_cached();
  memory.reset_peak();
  const int64_t system_allocations = memory.stats().system_allocations;
  const double begin = steady_seconds();
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    loss(random).backward();
    optimizer.step();
  }
  const double seconds = steady_seconds() - begin;
  const MemoryStats stats = memory.stats();
  fmt::print(
      "{{\"network\": \"{}\", \"device\": \"{}\", \"steps\": {}, \"peak_live\": {}, "
      "\"peak_reserved\": {}, \"ratio\": {:.4f}, \"system_allocations\": {}, "
      "\"seconds_per_step\": {:.6f}}}\n",
      name, device.str(), steps, stats.peak_live, stats.peak_reserved,
      static_cast<double>(stats.peak_reserved) / static_cast<double>(stats.peak_live),
      stats.system_allocations - system_allocations, seconds / steps);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 2000;
  const Device device = argc > 2 ? Device(argv[2]) : Device::cpu();
  const auto between = [](std::mt19937& random, int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  {
    nn::TransformerLanguageModel net(
        {.vocabulary = 256, .window = 128, .dim = 64, .heads = 4, .layers = 3, .device = device});
    train("language model, batches of 1 to 16, 8 to 128 tokens", net, steps, device,
          [&](std::mt19937& random) {
            const int64_t n = between(random, 1, 16), length = between(random, 8, 128);
            const TensorOptions tokens{.dtype = i64, .device = device};
            return cross_entropy(net(zeros({n, length}, tokens)).reshape({n * length, 256}),
                                 zeros({n * length}, tokens));
          });
  }
  {
    const auto net = nn::make_model("resnet18-cifar", {.device = device});
    train("resnet18-cifar, batches of 1 to 16, 16 to 48 pixels", *net, steps / 10, device,
          [&](std::mt19937& random) {
            const int64_t n = between(random, 2, 16), side = 8 * between(random, 2, 6);
            return cross_entropy((*net)(rand({n, 3, side, side}, {.device = device})),
                                 zeros({n}, {.dtype = i64, .device = device}));
          });
  }
}
