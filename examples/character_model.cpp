// A model of characters: learns from any text what comes next, byte by byte, and writes some.
//
//   character_model TEXT [SECONDS [DEVICE]]
//
// TEXT is a file, of which the last tenth is kept for the test. It trains for SECONDS (150). DEVICE
// is the first GPU, or the CPU if there is none, unless named. The figure at the end is bits per
// byte of the test's text, which is what a packed byte takes; `gzip -9` is a good one to beat.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include <brim/brim.h>

using namespace brim;

constexpr int64_t kWindow = 64, kBatch = 32, kBytes = 256;

struct CharacterModel : nn::Module {
  nn::Embedding& table = add<nn::Embedding>("table", {.num = kBytes, .dim = 128});
  nn::GRU& gru = add<nn::GRU>("gru", {.in = 128, .hidden = 256, .batch_first = true});
  nn::Linear& head = add<nn::Linear>("head", {.in = 256, .out = kBytes});

  /// (N, T) bytes -> (N, T, 256) scores of what comes next.
  Tensor forward(const Tensor& x) override { return head(gru(table(x))); }
};

/// Bits for each byte of y, given those before it.
Tensor bits(CharacterModel& model, const data::Batch& batch) {
  return cross_entropy(model(batch.x).flatten(0, 1), batch.y.flatten()) / std::numbers::ln2;
}

/// The parts of a data set: samples from `begin` to `end`.
data::DatasetPtr part_of(const data::DatasetPtr& from, int64_t begin, int64_t end) {
  std::vector<int64_t> samples(static_cast<size_t>(end - begin));
  std::iota(samples.begin(), samples.end(), begin);
  return data::subset(from, std::move(samples));
}

double test(CharacterModel& model, data::DeviceLoader& feed, Device device) {
  const NoGrad guard;
  Tensor sum = zeros({}, {.device = device});
  for (const data::Batch& batch : feed.epoch(0)) sum.add_(bits(model, batch));
  return sum.item() / static_cast<double>(feed.loader().batches());
}

std::string written_by(CharacterModel& model, const std::string& begin, int64_t count,
                       Device device) {
  const NoGrad guard;
  std::string text = begin;
  Tensor h;  // what the network remembers
  for (size_t read = 0; static_cast<int64_t>(text.size()) < count;) {
    std::vector<int64_t> fresh;
    for (; read < text.size(); ++read) fresh.push_back(static_cast<unsigned char>(text[read]));
    const auto length = static_cast<int64_t>(fresh.size());
    const auto [y, state] = model.gru(model.table(Tensor::from(fresh, {1, length}, device)), h);
    h = state;
    const Tensor scores = model.head(y.slice(1, length - 1, length).flatten(0, 1));
    text += static_cast<char>(multinomial(softmax(scores * 1.4, -1), 1).item<int64_t>());
  }
  return text;
}

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: character_model TEXT [SECONDS [DEVICE]]\n");
    return 2;
  }
  const double seconds = argc > 2 ? std::atof(argv[2]) : 150;
  const Device device = argc > 3 ? Device(argv[3]) : try_gpu();
  manual_seed(0);

  const data::DatasetPtr text = data::open_tokens(argv[1], {.window = kWindow});
  const int64_t windows = text->size(), kept = std::max<int64_t>(windows / 10, 1);
  if (windows - kept < kBatch || kept < kBatch) {
    std::fprintf(stderr, "character_model: %s is too short; some %d KB are needed\n", argv[1],
                 static_cast<int>(10 * kBatch * kWindow / 1000 + 1));
    return 1;
  }
  data::DeviceLoader feed(
      data::Loader(part_of(text, 0, windows - kept), {.batch = kBatch, .drop_last = true}), device);
  data::DeviceLoader test_feed(data::Loader(part_of(text, windows - kept, windows),
                                            {.batch = kBatch, .shuffle = false, .drop_last = true}),
                               device);

  CharacterModel model;
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 3e-3});
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Tensor sum = zeros({}, {.device = device});  // of bits; stays there until it is printed
  int64_t steps = 0, summed = 0;
  double report = 10;
  for (int64_t epoch = 0; passed() < seconds; ++epoch) {
    for (const data::Batch& batch : feed.epoch(epoch)) {
      optimizer.set_lr(3e-3 * std::max(0.02, 1 - passed() / seconds));
      optimizer.zero_grad();
      const Tensor loss = bits(model, batch);
      loss.backward();
      optimizer.step();
      sum.add_(loss.detach());
      ++steps, ++summed;
      if (passed() > seconds) break;
      if (passed() < report) continue;
      std::printf("%4.0f s  step %d  %.3f bits per byte\n", passed(), static_cast<int>(steps),
                  sum.item() / static_cast<double>(summed));
      std::fflush(stdout);
      sum.zero_();
      summed = 0;
      report = passed() + 10;
    }
  }
  std::printf("test: %.3f bits per byte\n\n%s\n", test(model, test_feed, device),
              written_by(model, "The ", 300, device).c_str());
} catch (const std::exception& e) {
  std::fprintf(stderr, "character_model: %s\n", e.what());
  return 1;
}
