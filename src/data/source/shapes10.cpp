// shapes10 as a source: samples are drawn on first use into one block, so that opening costs
// nothing and later reads are as cheap as memory.
#include <brim/data/source.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "core/check.h"
#include "data/source/drawing.h"
#include "data/source/shapes10_draw.h"

namespace brim::data {
namespace {

constexpr int64_t kBytes = 3 * shapes10::kPixels;

class Shapes10 final : public Source {
 public:
  Shapes10(Split split, uint64_t seed)
      : seed_(seed),
        first_(split == Split::test ? shapes10::kTrain : 0),
        size_(split == Split::train  ? shapes10::kTrain
              : split == Split::test ? shapes10::kTest
                                     : shapes10::kTrain + shapes10::kTest),
        classes_(std::begin(drawing::kKindNames), std::end(drawing::kKindNames)),
        state_(std::make_unique<std::atomic<uint8_t>[]>(static_cast<size_t>(size_))),
        pixels_(std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(size_ * kBytes))) {}

  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return shapes10::label(place(i).index); }
  ImageShape image_shape() const override { return {3, shapes10::kSide, shapes10::kSide}; }
  bool in_memory() const override { return true; }

  ImageView view(int64_t i) const override {
    uint8_t* const pixels = pixels_.get() + i * kBytes;
    std::atomic<uint8_t>& state = state_[static_cast<size_t>(i)];
    if (state.load(std::memory_order_acquire) != kReady) make(i, state, pixels);
    return {pixels, image_shape(), PixelOrder::chw};
  }

  void read(int64_t i, Image& out) const override {
    const ImageView planes = view(i);
    out.width = out.height = shapes10::kSide;
    out.channels = 3;
    out.pixels.resize(kBytes);
    for (int p = 0; p < shapes10::kPixels; ++p) {
      for (int c = 0; c < 3; ++c) out.pixels[3 * p + c] = planes.pixels[c * shapes10::kPixels + p];
    }
  }

  std::string describe(int64_t i) const override {
    return fmt::format("shapes10 {} {}", place(i).test ? "test" : "train", place(i).index);
  }

 private:
  enum : uint8_t { kEmpty, kBusy, kReady };

  struct Place {
    bool test;
    int64_t index;
  };
  // Split::all is train followed by test.
  Place place(int64_t i) const {
    const int64_t at = i + first_;
    return at < shapes10::kTrain ? Place{false, at} : Place{true, at - shapes10::kTrain};
  }

  void make(int64_t i, std::atomic<uint8_t>& state, uint8_t* pixels) const {
    uint8_t expected = kEmpty;
    if (state.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) {
      const Place at = place(i);
      shapes10::draw(seed_, at.test ? 1 : 0, at.index, pixels);
      state.store(kReady, std::memory_order_release);
      state.notify_all();
      return;
    }
    while (expected != kReady) {  // another thread is drawing it: microseconds
      state.wait(expected, std::memory_order_acquire);
      expected = state.load(std::memory_order_acquire);
    }
  }

  uint64_t seed_;
  int64_t first_, size_;
  std::vector<std::string> classes_;
  std::unique_ptr<std::atomic<uint8_t>[]> state_;
  std::unique_ptr<uint8_t[]> pixels_;
};

}  // namespace

std::shared_ptr<const Source> open_shapes10(Split split, uint64_t seed) {
  return std::make_shared<Shapes10>(split, seed);
}

}  // namespace brim::data
