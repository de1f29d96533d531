// A training loop of one's own that is fed as `brim train` is, and goes on where it was stopped or
// killed, with the same bits: start it, press Ctrl-C, start it again.
//
//   own_loop [FOLDER [DATA [DEVICE]]]
//
// FOLDER takes the checkpoints (own_loop_run). DATA is what data::Source::open takes (shapes10).
// DEVICE is the first GPU, or the CPU if there is none, unless named.
#include <cstdio>
#include <exception>
#include <string>

#include <brim/brim.h>

using namespace brim;

int main(int argc, char** argv) try {
  const std::string folder = argc > 1 ? argv[1] : "own_loop_run";
  const std::string where = argc > 2 ? argv[2] : "shapes10";
  const Device device = argc > 3 ? Device(argv[3]) : try_gpu();
  constexpr int64_t kEpochs = 3;
  manual_seed(0);

  const data::Loader loader(data::Source::open(where, data::Split::train),
                            {.steps = {data::HorizontalFlip{}}}, {.batch = 64});
  const data::Loader test(data::Source::open(where, data::Split::test), {},
                          {.batch = 100, .shuffle = false});
  data::DeviceLoader feed(loader, device), test_feed(test, device);

  const auto classes = static_cast<int64_t>(loader.source().classes().size());
  const auto net = nn::make_model("tutorial-cnn", {.classes = classes, .device = device});
  optim::SGD optimizer(net->named_parameters(), {.lr = 0.02, .momentum = 0.9});
  optim::CosineAnnealingLR schedule(optimizer, {.T_max = kEpochs * loader.batches()});
  Tensor sum = zeros({}, {.device = device});  // of losses; stays there until it is read
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy((*net)(x), y);
    loss.backward();
    optimizer.step();
    sum.add_(loss.detach());
  });

  train::Checkpoint checkpoint(folder, {.every_seconds = 5});
  checkpoint.add("model", *net);
  checkpoint.add("optimizer", optimizer);
  checkpoint.add("schedule", schedule);
  checkpoint.add("data", loader);
  checkpoint.add("sum", sum);
  train::LoopPosition at = checkpoint.resume();
  std::printf("%s on %s from epoch %d, batch %d\n", folder.c_str(), device.str().c_str(),
              static_cast<int>(at.epoch) + 1, static_cast<int>(at.batch) + 1);

  for (; at.epoch < kEpochs; at = {at.epoch + 1, 0, at.steps}) {
    for (const data::Batch& batch : feed.epoch(at.epoch, at.batch)) {
      step(batch.x, batch.y);
      schedule.step();
      at.batch = batch.index + 1, ++at.steps;
      if (checkpoint.due(at)) checkpoint.save(at);
    }
    const double loss = sum.item() / static_cast<double>(loader.batches());
    sum.zero_();
    checkpoint.save({at.epoch + 1, 0, at.steps}, loss);
    std::printf("epoch %d  loss %.3f  accuracy %.1f %%\n", static_cast<int>(at.epoch) + 1, loss,
                100 * train::evaluate(*net, test_feed).accuracy());
  }
} catch (const std::exception& e) {
  std::fprintf(stderr, "own_loop: %s\n", e.what());
  return 1;
}
