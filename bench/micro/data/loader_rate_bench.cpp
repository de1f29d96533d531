// One round of bench/compare_loader.py: how many pictures a second the loader makes, and how many
// libjpeg-turbo alone decodes with as many threads, of the same files at the same sizes. Prints one
// JSON object.
//   loader_rate_bench pictures PATH THREADS SECONDS   JPEGs: random resized crop 224, flip,
//   normalise loader_rate_bench memory PATH THREADS SECONDS     random crop with padding 4, flip,
//   normalise
#include <brim/data/loader.h>
#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>
// jpeglib.h needs size_t and FILE from the headers above.
#include <jpeglib.h>

#include "data/image/jpeg.h"
#include "data/loader/state.h"
#include "data/transform/random_resized_crop.h"

namespace {

using namespace brim::data;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kSeed = 0;
constexpr RandomResizedCrop kCrop{.height = 224};
const Normalize kImageNet{.mean = {0.485f, 0.456f, 0.406f}, .std = {0.229f, 0.224f, 0.225f}};

// A source many times over: a real epoch is long, so that its begin and end do not count.
class Repeated final : public Source {
 public:
  static constexpr int64_t kTimes = 10;
  explicit Repeated(std::shared_ptr<const Source> source) : source_(std::move(source)) {}
  int64_t size() const override { return source_->size() * kTimes; }
  const std::vector<std::string>& classes() const override { return source_->classes(); }
  int64_t label(int64_t i) const override { return source_->label(i % source_->size()); }
  void read(int64_t i, Image& out) const override { source_->read(i % source_->size(), out); }
  std::span<const uint8_t> file(int64_t i, std::vector<uint8_t>& buffer) const override {
    return source_->file(i % source_->size(), buffer);
  }
  std::string describe(int64_t i) const override { return source_->describe(i % source_->size()); }

 private:
  std::shared_ptr<const Source> source_;
};

// Pictures, and the wall and CPU seconds (of all threads) that they took.
struct Work {
  double images = 0, wall = 0, cpu = 0;
  Work& operator+=(const Work& other) {
    images += other.images, wall += other.wall, cpu += other.cpu;
    return *this;
  }
};

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Body>
Work timed(int64_t images, const Body& body) {
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  body();
  return {static_cast<double>(images), std::chrono::duration<double>(Clock::now() - begin).count(),
          cpu_seconds() - cpu};
}

void print(const char* name, const Work& work) {
  std::printf("\"%s\": {\"images_per_s\": %.1f, \"cpu_us\": %.2f}", name, work.images / work.wall,
              work.cpu / work.images * 1e6);
}

// Whole epochs, after one to warm up.
Work loader_work(const Loader& loader, double seconds) {
  int64_t epoch = 0;
  const auto pass = [&] {
    Epoch batches = loader.epoch(epoch++);
    while (batches.next() != nullptr) {
    }
  };
  pass();
  Work work;
  while (work.wall < seconds) work += timed(loader.samples(), pass);
  return work;
}

// What a program would do that knows nothing but libjpeg-turbo: a decompressor per thread, used
// again and again, every row of the picture.
class BareDecoder {
 public:
  BareDecoder() {
    codec_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&codec_);
  }
  ~BareDecoder() { jpeg_destroy_decompress(&codec_); }

  void decode(std::span<const uint8_t> bytes, int eighths) {
    jpeg_mem_src(&codec_, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_read_header(&codec_, TRUE);
    codec_.out_color_space = JCS_RGB;
    codec_.scale_num = static_cast<unsigned>(eighths);
    codec_.scale_denom = 8;
    jpeg_start_decompress(&codec_);
    const size_t row = size_t{codec_.output_width} * 3;
    pixels_.resize(row * codec_.output_height);
    while (codec_.output_scanline < codec_.output_height) {
      uint8_t* to = &pixels_[row * codec_.output_scanline];
      jpeg_read_scanlines(&codec_, &to, 1);
    }
    jpeg_finish_decompress(&codec_);
  }

 private:
  jpeg_decompress_struct codec_{};
  jpeg_error_mgr errors_{};
  std::vector<uint8_t> pixels_;
};

struct Bare {
  Work work;
  std::array<int64_t, 9> sizes{};  // how many samples had so many eighths
};

Bare bare_work(const Source& source, int threads, double seconds) {
  const int64_t samples = source.size();
  const auto eighths_of = [&](int64_t epoch, int64_t sample) {
    std::vector<uint8_t> buffer;
    const JpegFile file(source.file(sample, buffer), "");
    KeyedRandom random(sample_key(kSeed, epoch, sample));
    return choose_eighths(kCrop, choose_part(kCrop, file.width(), file.height(), random));
  };
  Bare result;
  for (int64_t epoch = 0; result.work.wall < seconds; ++epoch) {  // the first one warms up
    std::vector<int> eighths;
    for (int64_t i = 0; i < samples; ++i) eighths.push_back(eighths_of(epoch, i));
    std::atomic<int64_t> next{0};
    const auto work = [&] {
      BareDecoder decoder;
      std::vector<uint8_t> buffer;
      for (int64_t i = next++; i < samples; i = next++)
        decoder.decode(source.file(i, buffer), eighths[static_cast<size_t>(i)]);
    };
    const Work spent = timed(samples, [&] {
      std::vector<std::thread> pool;
      for (int t = 0; t < threads; ++t) pool.emplace_back(work);
      for (std::thread& thread : pool) thread.join();
    });
    if (epoch == 0) continue;
    result.work += spent;
    for (const int e : eighths) ++result.sizes[static_cast<size_t>(e)];
  }
  return result;
}

int run(const std::string& what, const std::string& path, int threads, double seconds) {
  const auto source = Source::open(path, what == "memory" ? Split::train : Split::all);
  if (what == "memory") {
    const Loader loader(source,
                        {.steps = {RandomCrop{.height = 32, .padding = 4}, HorizontalFlip{}}},
                        {.batch = 128, .workers = threads, .drop_last = true, .seed = kSeed});
    std::printf("{");
    print("brim", loader_work(loader, seconds));
    std::printf("}\n");
    return 0;
  }
  const auto pictures = std::make_shared<Repeated>(source);
  const Loader loader(pictures, {.steps = {kCrop, HorizontalFlip{}}, .normalize = kImageNet},
                      {.batch = 50, .workers = threads, .seed = kSeed});
  // One before and after the other, so that a change of the machine's speed meets both.
  Bare bare = bare_work(*pictures, threads, seconds / 2);
  const Work work = loader_work(loader, seconds);
  const Bare again = bare_work(*pictures, threads, seconds / 2);
  bare.work += again.work;
  std::printf("{");
  print("brim", work);
  std::printf(", ");
  print("libjpeg", bare.work);
  std::printf(", \"eighths\": {");
  for (const int e : {1, 2, 4, 8}) {
    const int64_t count = bare.sizes[static_cast<size_t>(e)] + again.sizes[static_cast<size_t>(e)];
    std::printf("%s\"%d\": %s", e == 1 ? "" : ", ", e, std::to_string(count).c_str());
  }
  std::printf("}}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1 ||
      std::string(argv[1]).starts_with("--benchmark")) {  // `make bench` runs everything
    std::printf("skipped: no data; bench/compare_loader.py runs this\n");
    return 0;
  }
  const std::string what = argc == 5 ? argv[1] : "";
  if (what != "pictures" && what != "memory") {
    std::fprintf(stderr, "usage: loader_rate_bench pictures|memory PATH THREADS SECONDS\n");
    return 2;
  }
  try {
    return run(what, argv[2], std::atoi(argv[3]), std::atof(argv[4]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "loader_rate_bench: %s\n", error.what());
    return 1;
  }
}
