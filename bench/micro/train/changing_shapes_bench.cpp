// What eager training holds of memory where each step has another shape: language models with
// random batches and lengths, CNNs with random batches and image sizes, and batches that grow and
// shrink. JSON: bytes that the device's runtime gave at most, beside the most that tensors held,
// and seconds a step.
//
//   build/bench/changing_shapes_bench [STEPS] [DEVICE] [PART OF A NAME]
#include <brim/core/allocator.h>
#include <brim/nn/container.h>
#include <brim/nn/language_model.h>
#include <brim/nn/models.h>
#include <brim/ops/create.h>
#include <brim/ops/loss.h>
#include <brim/ops/shape.h>
#include <brim/optim/sgd.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string_view>

#include "core/clock.h"

namespace {

using namespace brim;

/// The loss of a step.
using Loss = std::function<Tensor(int step, std::mt19937& random)>;

std::string_view wanted;  // a part of a training's name

void train(std::string_view name, nn::Module& net, int steps, Device device, const Loss& loss) {
  if (name.find(wanted) == std::string_view::npos) return;
  optim::SGD optimizer(net.parameters(), {.lr = 0.001, .momentum = 0.9});
  std::mt19937 random(1);
  Allocator& memory = Allocator::of(device);
  memory.release_cached();
  memory.reset_peak();
  const int64_t system_allocations = memory.stats().system_allocations;
  const double begin = steady_seconds();
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    loss(i, random).backward();
    optimizer.step();
  }
  const double seconds = steady_seconds() - begin;
  const MemoryStats stats = memory.stats();
  fmt::print(
      "{{\"training\": \"{}\", \"device\": \"{}\", \"steps\": {}, \"peak_live\": {}, "
      "\"peak_reserved\": {}, \"ratio\": {:.4f}, \"system_allocations\": {}, "
      "\"seconds_per_step\": {:.6f}}}\n",
      name, device.str(), steps, stats.peak_live, stats.peak_reserved,
      static_cast<double>(stats.peak_reserved) / static_cast<double>(stats.peak_live),
      stats.system_allocations - system_allocations, seconds / steps);
}

/// 0 at the first step and the last, 1 in between.
double rise_and_fall(int step, int steps) {
  return 1 - std::abs(2.0 * step / std::max(1, steps - 1) - 1);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 2000;
  const Device device = argc > 2 ? Device(argv[2]) : Device::cpu();
  if (argc > 3) wanted = argv[3];
  const auto between = [](std::mt19937& random, int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto of_text = [&](nn::Module& net, int64_t n, int64_t length) {
    const TensorOptions tokens{.dtype = i64, .device = device};
    return cross_entropy(net(zeros({n, length}, tokens)).reshape({n * length, 256}),
                         zeros({n * length}, tokens));
  };
  const auto of_images = [&](nn::Module& net, int64_t n, int64_t side) {
    return cross_entropy(net(rand({n, 3, side, side}, {.device = device})),
                         zeros({n}, {.dtype = i64, .device = device}));
  };
  const nn::TransformerLanguageModel::Options language{
      .vocabulary = 256, .window = 128, .dim = 64, .heads = 4, .layers = 3, .device = device};
  {
    nn::TransformerLanguageModel net(language);
    train("language model, batches of 1 to 16, 8 to 128 tokens", net, steps, device,
          [&](int, std::mt19937& random) {
            const int64_t n = between(random, 1, 16);
            return of_text(net, n, between(random, 8, 128));
          });
  }
  {
    nn::TransformerLanguageModel net(language);
    train("language model, batches that grow to 32 and shrink", net, steps / 2, device,
          [&](int step, std::mt19937& random) {
            const auto n = 1 + static_cast<int64_t>(31 * rise_and_fall(step, steps / 2));
            return of_text(net, n, between(random, 32, 128));
          });
  }
  {
    const auto net = nn::make_model("tutorial-cnn", {.device = device});
    train("tutorial-cnn, batches of 1 to 256", *net, steps, device,
          [&](int, std::mt19937& random) { return of_images(*net, between(random, 1, 256), 32); });
  }
  {
    const auto net = nn::make_model("resnet18-cifar", {.device = device});
    train("resnet18-cifar, batches of 2 to 16, 16 to 48 pixels", *net, steps / 10, device,
          [&](int, std::mt19937& random) {
            const int64_t n = between(random, 2, 16);
            return of_images(*net, n, 8 * between(random, 2, 6));
          });
  }
  {
    const auto net = nn::make_model("resnet18-cifar", {.device = device});
    train("resnet18-cifar, batches that grow to 16 and shrink", *net, steps / 20, device,
          [&](int step, std::mt19937&) {
            const auto n = 2 + static_cast<int64_t>(14 * rise_and_fall(step, steps / 20));
            return of_images(*net, n, 32);
          });
  }
}
