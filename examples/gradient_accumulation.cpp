// Gradient accumulation: a batch that does not fit into memory is computed in parts. backward()
// adds to the gradients that are there, so one step of the optimizer follows several of them.
//
//   gradient_accumulation [DEVICE]
//
// DEVICE is the first GPU, or the CPU if there is none, unless named.
#include <cstdio>
#include <exception>

#include <brim/brim.h>

using namespace brim;

constexpr int64_t kBatch = 64, kParts = 4;

std::unique_ptr<nn::Module> network(Device device) {
  manual_seed(0);  // the same initial weights each time
  return nn::make_model("tutorial-cnn", {.device = device});
}

/// One epoch's loss at its end. `parts`: into how many each batch is cut.
double train_epoch(nn::Module& net, data::DeviceLoader& feed, int64_t parts, Device device) {
  optim::SGD optimizer(net.named_parameters(), {.lr = 0.02, .momentum = 0.9});
  Tensor last = zeros({}, {.device = device});
  for (const data::Batch& batch : feed.epoch(0)) {
    optimizer.zero_grad();
    last.zero_();
    const int64_t n = batch.x.size(0), part = n / parts;
    for (int64_t first = 0; first < n; first += part) {
      const Tensor x = batch.x.slice(0, first, first + part);
      const Tensor y = batch.y.slice(0, first, first + part);
      // The loss is a mean over the part: divided by their number it is the batch's share.
      const Tensor loss = cross_entropy(net(x), y) / static_cast<double>(parts);
      loss.backward();  // this part's activations go here
      last.add_(loss.detach());
    }
    optimizer.step();
  }
  return last.item();
}

int main(int argc, char** argv) try {
  const Device device = argc > 1 ? Device(argv[1]) : try_gpu();
  const data::Loader loader(data::open_shapes10(data::Split::train), {},
                            {.batch = kBatch, .drop_last = true});
  data::DeviceLoader feed(loader, device);

  const auto whole = network(device), in_parts = network(device);
  const double a = train_epoch(*whole, feed, 1, device);
  const double b = train_epoch(*in_parts, feed, kParts, device);
  std::printf("loss of the last batch: %.4f at once, %.4f in %d parts\n", a, b,
              static_cast<int>(kParts));

  double difference = 0;
  for (size_t i = 0; i < whole->parameters().size(); ++i) {
    const Tensor d = whole->parameters()[i].detach() - in_parts->parameters()[i].detach();
    difference = std::max(difference, abs(d).max().item());
  }
  std::printf("weights differ by %.1e at most: sums are taken in another order\n", difference);
  return difference < 1e-2 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gradient_accumulation: %s\n", e.what());
  return 1;
}
