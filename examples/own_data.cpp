// Data of one's own: a class of two functions. Worker threads call them, batches are put together
// ahead of the steps, and the next one is on the device before a step ends.
//
//   own_data [DEVICE]
//
// A network learns how fast a noisy wave swings. DEVICE is the first GPU, or the CPU if there is
// none, unless named.
#include <cmath>
#include <cstdio>
#include <exception>

#include <brim/brim.h>

using namespace brim;

constexpr int64_t kLength = 64;

/// "x" f32 (64): a wave with noise; "y" f32 (1): its frequency.
class Waves final : public data::Dataset {
 public:
  Waves(int64_t first, int64_t size) : first_(first), size_(size) {}
  int64_t size() const override { return size_; }
  /// Called by many threads at once; sample i is always the same.
  void get(int64_t i, data::Sample& out) const override {
    data::KeyedRandom random(static_cast<uint64_t>(first_ + i));
    const float frequency = 0.1f + 0.4f * random.unit(), phase = 6 * random.unit();
    const std::span<float> x = out.make<float>("x", {kLength});
    for (size_t k = 0; k < x.size(); ++k)
      x[k] = std::sin(frequency * static_cast<float>(k) + phase) + 0.2f * (random.unit() - 0.5f);
    out.make<float>("y", {1})[0] = frequency;
  }
  std::string describe(int64_t i) const override { return "wave " + std::to_string(first_ + i); }

 private:
  const int64_t first_, size_;
};

double error_of(nn::Module& net, data::DeviceLoader& feed, Device device) {
  const NoGrad guard;
  Tensor sum = zeros({}, {.device = device});
  int64_t batches = 0;
  for (const data::Batch& batch : feed.epoch(0)) {
    sum.add_(l1_loss(net(batch.x), batch.y));
    ++batches;
  }
  return sum.item() / static_cast<double>(batches);
}

int main(int argc, char** argv) try {
  const Device device = argc > 1 ? Device(argv[1]) : try_gpu();
  manual_seed(0);
  const data::Loader loader(std::make_shared<Waves>(0, 4000), {.batch = 50});
  const data::Loader test(std::make_shared<Waves>(4000, 500), {.batch = 100, .shuffle = false});
  data::DeviceLoader feed(loader, device), test_feed(test, device);

  nn::Sequential net;
  net.push<nn::Linear>({.in = kLength, .out = 128, .device = device}).push<nn::ReLU>();
  net.push<nn::Linear>({.in = 128, .out = 64, .device = device}).push<nn::ReLU>();
  net.push<nn::Linear>({.in = 64, .out = 1, .device = device});
  optim::Adam optimizer(net.named_parameters(), {.lr = 2e-3});

  std::printf("before: off by %.4f\n", error_of(net, test_feed, device));
  for (int64_t epoch = 0; epoch < 8; ++epoch)
    for (const data::Batch& batch : feed.epoch(epoch)) {
      optimizer.zero_grad();
      mse_loss(net(batch.x), batch.y).backward();
      optimizer.step();
    }
  const double error = error_of(net, test_feed, device);
  std::printf("after: off by %.4f, of frequencies between 0.1 and 0.5\n", error);
  return error < 0.03 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "own_data: %s\n", e.what());
  return 1;
}
