// One round of bench/compare_dataset.py: how many samples a second the loader makes of tensors that
// are no pictures. Prints one JSON object.
//   dataset_rate_bench table THREADS SECONDS         1,000,000 rows of 32 floats, batches of 1,024
//   dataset_rate_bench own THREADS SECONDS           the same from a data set of a user's own
//   dataset_rate_bench iterable THREADS SECONDS      the same rows one after the other
//   dataset_rate_bench shuffled THREADS SECONDS      the same through a buffer of 10,000
//   dataset_rate_bench tokens THREADS SECONDS FILE   windows of 512 u16 tokens, batches of 32
//   dataset_rate_bench sentences THREADS SECONDS     1 to 256 tokens, padded by buckets, of 64
#include <brim/data/loader.h>
#include <brim/data/tables.h>
#include <brim/ops/create.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace brim;
using namespace brim::data;
using Clock = std::chrono::steady_clock;

constexpr int64_t kRows = 1'000'000, kColumns = 32;

// What a user writes.
struct OwnTable final : Dataset {
  const Tensor table = randn({kRows, kColumns});
  const float* const rows = table.data<float>();
  int64_t size() const override { return kRows; }
  void get(int64_t i, Sample& out) const override {
    std::copy_n(rows + i * kColumns, kColumns, out.make<float>("x", {kColumns}).begin());
    out.set("y", i % 10);
  }
  void prefetch(int64_t i) const noexcept override {
    for (int64_t k = 0; k < kColumns; k += 16) __builtin_prefetch(rows + i * kColumns + k);
  }
  bool in_memory() const override { return true; }
};

struct OwnRows final : IterableDataset {
  const std::vector<float> rows = randn({kRows, kColumns}).to_vector<float>();
  int64_t at = 0;
  void begin(int64_t) override { at = 0; }
  bool next(Sample& out) override {
    if (at == kRows) return false;
    std::copy_n(rows.begin() + at * kColumns, kColumns, out.make<float>("x", {kColumns}).begin());
    out.set("y", at++ % 10);
    return true;
  }
  std::string state() const override { return std::to_string(at); }
  void load_state(const std::string& state) override { at = std::stoll(state); }
};

struct Sentences final : Dataset {
  std::vector<int64_t> begin{0};
  std::vector<int64_t> tokens;
  Sentences() {
    KeyedRandom random(7);
    for (int i = 0; i < 200'000; ++i) {
      // Short ones are more frequent.
      const int length = 1 + random.uniform(0, 255) * random.uniform(0, 255) / 255;
      for (int k = 0; k < length; ++k) tokens.push_back(random.uniform(1, 30'000));
      begin.push_back(static_cast<int64_t>(tokens.size()));
    }
  }
  int64_t size() const override { return static_cast<int64_t>(begin.size()) - 1; }
  int64_t length(int64_t i) const override {
    return begin[static_cast<size_t>(i) + 1] - begin[static_cast<size_t>(i)];
  }
  void get(int64_t i, Sample& out) const override {
    std::copy_n(tokens.begin() + begin[static_cast<size_t>(i)], length(i),
                out.make<int64_t>("x", {length(i)}).begin());
  }
  bool in_memory() const override { return true; }
};

Loader loader_of(const std::string& what, int threads, const std::string& path) {
  LoaderOptions options{.batch = 1024, .workers = threads, .drop_last = true};
  if (what == "own") return Loader(std::make_shared<OwnTable>(), options);
  if (what == "iterable" || what == "shuffled") {
    options.shuffle = false;
    const auto data = std::make_shared<OwnRows>();
    return what == "iterable" ? Loader(data, options) : Loader(shuffled(data, 10'000), options);
  }
  if (what == "tokens") {
    options.batch = 32;
    return Loader(open_tokens(path, {.window = 512, .dtype = DType::u16}), options);
  }
  if (what == "sentences") {
    options.batch = 64;
    options.collate = pad();
    options.buckets = Buckets{};
    return Loader(std::make_shared<Sentences>(), options);
  }
  return Loader(
      from_tensors({{"x", randn({kRows, kColumns})}, {"y", zeros({kRows}, {.dtype = i64})}}),
      options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1 ||
      std::string(argv[1]).starts_with("--benchmark")) {  // `make bench` runs everything
    std::printf("skipped: no case; bench/compare_dataset.py runs this\n");
    return 0;
  }
  if (argc < 4 || argc > 5) {
    std::fprintf(stderr,
                 "usage: dataset_rate_bench table|own|iterable|shuffled|tokens|sentences THREADS "
                 "SECONDS [FILE]\n");
    return 2;
  }
  try {
    const Loader loader = loader_of(argv[1], std::atoi(argv[2]), argc > 4 ? argv[4] : "");
    const double seconds = std::atof(argv[3]);
    int64_t epoch = 0, samples = 0, values = 0;
    const auto pass = [&](double until) {
      const auto begin = Clock::now();
      const auto passed = [&] {
        return std::chrono::duration<double>(Clock::now() - begin).count();
      };
      samples = values = 0;
      do {
        for (const Batch& b : loader.epoch(epoch++)) {
          samples += static_cast<int64_t>(b.samples.size());
          values += b.x.numel();
          if (passed() > until) break;
        }
      } while (passed() < until);
      return passed();
    };
    pass(seconds / 4);  // warms up
    const double wall = pass(seconds);
    std::printf("{\"samples_per_s\": %.1f, \"values\": %.1f}\n",
                static_cast<double>(samples) / wall,
                static_cast<double>(values) / static_cast<double>(samples));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dataset_rate_bench: %s\n", e.what());
    return 1;
  }
  return 0;
}
