// Loader throughput on a CIFAR-sized source in memory: how many pictures a second come out, and
// what one next() costs the training loop. Run with --benchmark_format=json for a machine.
#include <benchmark/benchmark.h>
#include <brim/data/loader.h>

#include <numeric>

namespace {

using namespace brim::data;

class MemorySource final : public Source {
 public:
  static constexpr int64_t kSize = 50000;
  MemorySource() : pixels_(kSize * 3072) { std::iota(pixels_.begin(), pixels_.end(), uint8_t{0}); }
  int64_t size() const override { return kSize; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return i % 10; }
  ImageShape image_shape() const override { return {3, 32, 32}; }
  bool in_memory() const override { return true; }
  ImageView view(int64_t i) const override {
    return {&pixels_[static_cast<size_t>(i) * 3072], image_shape(), PixelOrder::chw};
  }
  void read(int64_t, Image&) const override {}
  std::string describe(int64_t i) const override { return std::to_string(i); }

 private:
  std::vector<uint8_t> pixels_;
  std::vector<std::string> classes_ = std::vector<std::string>(10);
};

// Arguments: batch, workers (-1: chosen), 1 for random crop and flip.
void loader(benchmark::State& state) {
  static const auto source = std::make_shared<MemorySource>();
  Transform transform;
  if (state.range(2) != 0)
    transform.steps = {RandomCrop{.height = 32, .padding = 4}, HorizontalFlip{}};
  const Loader loader(
      source, transform,
      {.batch = state.range(0), .workers = static_cast<int>(state.range(1)), .drop_last = true});
  int64_t epoch = 0;
  Epoch pass = loader.epoch(epoch);
  for (auto _ : state) {
    Batch* batch = pass.next();
    if (batch == nullptr) {
      pass = loader.epoch(++epoch);
      batch = pass.next();
    }
    benchmark::DoNotOptimize(batch->x.raw());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(loader)
    ->ArgNames({"batch", "workers", "augment"})
    ->ArgsProduct({{4, 128}, {0, 1, 2, -1}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
