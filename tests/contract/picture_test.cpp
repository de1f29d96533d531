// picture_batch: every device makes the bits of the formula; what does not fit is refused.
#include "ops/picture/picture_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <brim/brim.h>

#include "contract/harness.h"
#include "formula/picture.h"

namespace brim {
namespace {

using backend::PictureOptions;
using formula::PictureWindow;

using contract::devices;

/// Five pictures of height x width, their labels, and windows that reach over every edge.
struct Pictures {
  int64_t height, width;
  std::vector<uint8_t> bytes;
  std::vector<int64_t> labels = {3, 1, 4, 1, 5};
  std::vector<PictureWindow> windows = {{2, 0, 0, 0},  {0, -2, 3, 1},  {4, 1, -3, 0}, {1, 2, -2, 1},
                                        {3, -9, 0, 0}, {3, 1, 100, 1}, {4, 0, 0, 1}};

  Pictures(int64_t h, int64_t w) : height(h), width(w) {
    for (int64_t i = 0; i < 5 * 3 * h * w; ++i)
      bytes.push_back(static_cast<uint8_t>(i * 7919 >> 3));
  }
  Tensor pictures(Device d) const { return Tensor::from(bytes, {5, 3, height, width}, d); }
  Tensor rows(Device d) const {
    std::vector<int32_t> v(4 * windows.size());
    std::memcpy(v.data(), windows.data(), v.size() * sizeof(int32_t));
    return Tensor::from(v, {static_cast<int64_t>(windows.size()), 4}, d);
  }
  /// The pixel of row `row` of the windows, written as plainly as can be.
  float at(const PictureOptions& o, int64_t row, int64_t c, int64_t y, int64_t x,
           int64_t columns) const {
    const PictureWindow& w = windows[static_cast<size_t>(row)];
    const int64_t from_y = w.y + y, from_x = w.x + (w.mirrored ? columns - 1 - x : x);
    uint8_t byte = o.fill;
    if (from_y >= 0 && from_y < height && from_x >= 0 && from_x < width)
      byte = bytes[static_cast<size_t>(((w.picture * 3 + c) * height + from_y) * width + from_x)];
    return (static_cast<float>(byte) / 255.0f - o.mean[static_cast<size_t>(c)]) /
           o.std[static_cast<size_t>(c)];
  }
};

struct Made {
  std::vector<float> x;
  std::vector<int64_t> y;
};

Made make_batch(const Pictures& p, Device d, int64_t n, int64_t h, int64_t w, int64_t position,
                const PictureOptions& options) {
  Tensor x = full({n, 3, h, w}, -1, {.device = d});
  Tensor y = full({n}, -1, {.dtype = i64, .device = d});
  Tensor position_at = Tensor::from<int64_t>({position, 0}, {2}, d);
  ops::picture_batch(p.pictures(d), Tensor::from(p.labels, {5}, d), p.rows(d), position_at, x, y,
                     options);
  return {x.to_vector<float>(), y.to_vector<int64_t>()};
}

TEST(Contract, picture_batch) {
  PictureOptions options{{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}, 9, 0};
  for (const Device device : devices())
    for (const auto& [h, w] : {std::pair<int64_t, int64_t>{5, 7}, {6, 8}, {1, 1}, {3, 12}}) {
      const Pictures p(6, 8);
      for (const int64_t offset : {0, 2}) {
        options.offset = offset;
        const int64_t position = 1, n = 4;
        const Made made = make_batch(p, device, n, h, w, position, options);
        for (int64_t i = 0, at = 0; i < n; ++i) {
          const int64_t row = position + offset + i;
          const int32_t picture = p.windows[static_cast<size_t>(row)].picture;
          EXPECT_EQ(made.y[static_cast<size_t>(i)], p.labels[static_cast<size_t>(picture)]);
          for (int64_t c = 0; c < 3; ++c)
            for (int64_t y = 0; y < h; ++y)
              for (int64_t x = 0; x < w; ++x, ++at)
                ASSERT_EQ(made.x[static_cast<size_t>(at)], p.at(options, row, c, y, x, w))
                    << device.str() << " sample " << i << " channel " << c << " at " << y << ", "
                    << x << " of " << h << " x " << w;
        }
      }
    }
}

TEST(PictureBatch, MovesThePositionOnInItsLaunch) {
  const Pictures p(6, 40);  // several blocks a sample
  PictureOptions options;
  options.advance = 3;
  for (const Device device : devices()) {
    const Tensor pictures = p.pictures(device), labels = Tensor::from(p.labels, {5}, device),
                 rows = p.rows(device);
    Tensor position = Tensor::from<int64_t>({1, 0}, {2}, device);
    Tensor x = zeros({3, 3, 60, 40}, {.device = device});
    Tensor y = zeros({3}, {.dtype = i64, .device = device});
    for (const int64_t begin : {1, 4}) {
      const uint32_t before = position.storage()->version();
      ops::picture_batch(pictures, labels, rows, position, x, y, options);
      const Made made = make_batch(p, device, 3, 60, 40, begin, {});
      EXPECT_EQ(x.to_vector<float>(), made.x) << device.str();
      EXPECT_EQ(y.to_vector<int64_t>(), made.y) << device.str();
      EXPECT_EQ(position.to_vector<int64_t>(), (std::vector<int64_t>{begin + 3, 0}))
          << device.str();
      EXPECT_GT(position.storage()->version(), before);
    }
    Tensor nothing_x = zeros({0, 3, 6, 4}, {.device = device});
    Tensor nothing_y = zeros({0}, {.dtype = i64, .device = device});
    ops::picture_batch(pictures, labels, rows, position, nothing_x, nothing_y, options);
    EXPECT_EQ(position.to_vector<int64_t>(), (std::vector<int64_t>{10, 0})) << device.str();
  }
}

TEST(PictureBatch, MayBeEmpty) {
  for (const Device device : devices()) {
    EXPECT_TRUE(make_batch(Pictures(6, 8), device, 0, 5, 5, 7, {}).x.empty());
    EXPECT_EQ(make_batch(Pictures(6, 8), device, 2, 0, 5, 0, {}).y, (std::vector<int64_t>{4, 3}));
  }
}

TEST(PictureBatch, RowsAndPicturesMustExist) {
  for (const Device device : devices()) {
    EXPECT_THROW((void)make_batch(Pictures(6, 8), device, 4, 5, 5, 4, {}), IndexError)
        << device.str();
    EXPECT_THROW((void)make_batch(Pictures(6, 8), device, 1, 5, 5, -1, {}), IndexError)
        << device.str();
    Pictures wrong(6, 8);
    wrong.windows[1].picture = 5;
    EXPECT_THROW((void)make_batch(wrong, device, 2, 5, 5, 0, {}), IndexError) << device.str();
    EXPECT_EQ(make_batch(wrong, device, 1, 5, 5, 0, {}).y, std::vector<int64_t>{4}) << device.str();
  }
}

TEST(PictureBatch, ChecksItsTensors) {
  const Pictures p(6, 8);
  const Device cpu = Device::cpu();
  const Tensor pictures = p.pictures(cpu), labels = Tensor::from(p.labels, {5}), rows = p.rows(cpu),
               position = Tensor::from<int64_t>({0, 0}, {2});
  Tensor x = zeros({2, 3, 6, 8}), y = zeros({2}, {.dtype = i64});
  const auto call = [&](const Tensor& a, const Tensor& b, const Tensor& c, Tensor d) {
    ops::picture_batch(a, b, c, d, x, y, {});
  };
  EXPECT_NO_THROW(call(pictures, labels, rows, position));
  EXPECT_THROW(call({}, labels, rows, position), ValueError);
  EXPECT_THROW(call(pictures.to(f32), labels, rows, position), DTypeError);
  EXPECT_THROW(call(pictures, labels.slice(0, 0, 4), rows, position), ShapeError);
  EXPECT_THROW(call(pictures, labels, rows.slice(1, 0, 3), position), ShapeError);
  EXPECT_THROW(call(pictures, labels, rows, zeros({1}, {.dtype = i64})), ShapeError);
  EXPECT_THROW(call(pictures, labels.to(Device::sim(0)), rows, position), DeviceError);
  x = zeros({2, 1, 6, 8});
  EXPECT_THROW(call(pictures, labels, rows, position), ShapeError);
}

}  // namespace
}  // namespace brim
