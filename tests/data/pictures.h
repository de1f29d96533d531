// Pictures for tests of feeding: random pixels, some of them perhaps broken, and the devices to
// try.
#pragma once

#include <string>
#include <vector>

#include <brim/core/device.h>
#include <brim/core/error.h>
#include <brim/data/source.h>

#include "data/keyed.h"

namespace brim::tests {

/// `count` pictures of height x width; those of `broken` cannot be read.
class RandomPictures final : public data::Source {
 public:
  RandomPictures(int64_t count, int height, int width, std::vector<int64_t> broken = {})
      : count_(count), height_(height), width_(width), broken_(std::move(broken)) {}
  int64_t size() const override { return count_; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override { return i % 10; }
  data::ImageShape image_shape() const override { return {3, height_, width_}; }
  std::string describe(int64_t i) const override { return "picture " + std::to_string(i); }
  void read(int64_t i, data::Image& out) const override {
    for (const int64_t broken : broken_)
      if (i == broken) throw FileError(describe(i) + ": broken");
    out = {width_, height_, 3, {}};
    data::KeyedRandom random(static_cast<uint64_t>(i));
    for (int64_t p = 0; p < out.shape().bytes(); ++p)
      out.pixels.push_back(static_cast<uint8_t>(random.uniform(0, 255)));
  }

 private:
  int64_t count_;
  int height_, width_;
  std::vector<int64_t> broken_;
  std::vector<std::string> classes_{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
};

/// CPU, a virtual accelerator, and a GPU where there is one (or its emulation).
inline std::vector<Device> feeding_devices() {
  std::vector<Device> devices = {Device::cpu(), Device::sim(0)};
  if (Device::count(DeviceKind::cuda) > 0) devices.push_back(Device::cuda(0));
  return devices;
}

}  // namespace brim::tests
