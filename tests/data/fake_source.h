// A source whose samples can be broken, and what a pass of a loader over it gives.
#pragma once

#include <brim/core/error.h>
#include <brim/data/loader.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/scratch.h"

namespace brim::data::tests {

// A source of small gradients; chosen samples throw.
class FakeSource final : public Source {
 public:
  explicit FakeSource(int64_t size, std::set<int64_t> broken = {})
      : size_(size), broken_(std::move(broken)) {}
  int64_t size() const override { return size_; }
  const std::vector<std::string>& classes() const override { return names; }
  int64_t label(int64_t i) const override { return i % 3; }
  std::string describe(int64_t i) const override { return "fake " + std::to_string(i); }
  void read(int64_t i, Image& out) const override {
    ++reads;
    if (broken_.count(i) != 0) throw FileError(describe(i) + ": broken");
    const int side = i == odd_one ? 7 : 6;
    out = {side, 5, 3, gradient(side, 5, 3, static_cast<int>(i))};
    if (change) change(i, out);
  }
  mutable std::atomic<int> reads{0};
  int64_t odd_one = -1;
  std::function<void(int64_t, Image&)> change;
  ImageShape image_shape() const override { return shape; }
  std::vector<std::string> names{"a", "b", "c"};
  ImageShape shape;  // known only after decoding

 private:
  int64_t size_;
  std::set<int64_t> broken_;
};

inline const Transform kAugment{
    .steps = {RandomCrop{.height = 5, .width = 6, .padding = 2}, HorizontalFlip{}}};

struct Pass {
  std::vector<int64_t> samples, labels;
  std::vector<float> pixels;
  std::vector<int64_t> sizes;
  bool operator==(const Pass&) const = default;
};

inline Pass run_loader(const Loader& loader, int64_t epoch, int64_t first = 0) {
  Pass pass;
  int64_t index = first;
  for (Batch& b : loader.epoch(epoch, first)) {
    EXPECT_EQ(b.index, index++);
    const auto x = b.x.to_vector<float>();
    const auto y = b.y.to_vector<int64_t>();
    EXPECT_EQ(b.x.size(0), b.y.size(0));
    pass.pixels.insert(pass.pixels.end(), x.begin(), x.end());
    pass.labels.insert(pass.labels.end(), y.begin(), y.end());
    pass.samples.insert(pass.samples.end(), b.samples.begin(), b.samples.end());
    pass.sizes.push_back(b.x.size(0));
  }
  return pass;
}

}  // namespace brim::data::tests
