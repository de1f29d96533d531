// Transforms of pictures of any channels and bits, and of masks beside them.
#include <brim/core/error.h>
#include <brim/data/pictures.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/keyed.h"
#include "data/scratch.h"
#include "data/transform/pixel_plan.h"
#include "data/transform/resample.h"

namespace brim::data {
namespace {

using namespace tests;

const Normalize kUnitScale{.mean = {0}, .std = {1}};

// Steps of every kind, several of them in a row.
std::vector<std::vector<TransformStep>> many_steps() {
  return {
      {},
      {CenterCrop{.height = 9, .width = 30}},
      {CenterCrop{.height = 40}},
      {RandomCrop{.height = 11, .padding = 4, .fill = 7}, HorizontalFlip{}},
      {HorizontalFlip{}, RandomCrop{.height = 8, .width = 12}, CenterCrop{.height = 20}},
      {RandomCrop{.height = 24, .padding = 8}, RandomCrop{.height = 20}, HorizontalFlip{.p = 1}},
      {Resize{.height = 10}},
      {Resize{.height = 31, .width = 17}, HorizontalFlip{}},
      {Resize{.height = 10}, CenterCrop{.height = 21}},
      {RandomResizedCrop{.height = 12}, HorizontalFlip{}},
      {RandomCrop{.height = 18}, HorizontalFlip{}, Resize{.height = 9}, CenterCrop{.height = 7}},
  };
}

PixelImage pixels_of(const Image& image) {
  PixelImage out;
  out.pixels = image;
  return out;
}

// The same picture in 16 bits.
PixelImage widened(const Image& image) {
  Image16 out{image.width, image.height, image.channels, {}};
  for (const uint8_t x : image.pixels) out.pixels.push_back(static_cast<uint16_t>(x * 257));
  PixelImage wide;
  wide.pixels = std::move(out);
  return wide;
}

TEST(PixelTransform, RgbHasTheBitsOfTheOtherPath) {
  const Image image{23, 19, 3, gradient(23, 19, 3, 3)};
  for (const auto& steps : many_steps()) {
    for (const uint64_t key : {0, 1, 2, 3}) {
      const Transform transform{steps, {.mean = {0.4f, 0.5f, 0.3f}, .std = {0.2f, 0.3f, 0.25f}}};
      const Tensor expected = to_tensor(image, transform, key);
      const Tensor made = to_tensor(pixels_of(image), transform, key);
      EXPECT_EQ(made.shape(), expected.shape());
      EXPECT_EQ(made.to_vector<float>(), expected.to_vector<float>());
    }
  }
}

TEST(PixelTransform, SixteenBitsAreEightOnAFinerScale) {
  for (const int channels : {1, 2, 3, 4}) {
    const Image image{23, 19, channels, gradient(23, 19, channels, 5)};
    for (const auto& steps : many_steps()) {
      const Transform transform{.steps = steps, .normalize = kUnitScale};
      const auto bytes = to_tensor(pixels_of(image), transform, 9);
      const auto words = to_tensor(widened(image), transform, 9);
      ASSERT_EQ(words.shape(), bytes.shape());
      EXPECT_EQ(words.size(0), channels);
      const auto a = bytes.to_vector<float>(), b = words.to_vector<float>();
      // What is resampled is rounded to its own bits, twice.
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1.1 / 255) << i;
    }
    const auto exact = to_tensor(widened(image), {.normalize = kUnitScale}).to_vector<float>();
    EXPECT_EQ(exact, to_tensor(pixels_of(image), {.normalize = kUnitScale}).to_vector<float>());
  }
}

TEST(PixelTransform, SixteenBitsAreResampledInFull) {
  Image16 image{13, 9, 1, {}};
  for (const uint8_t x : gradient(13, 9, 1, 1)) image.pixels.push_back(uint16_t(x * 500 + 7));
  Image16 out;
  resample(ImageView16(image), Box{0, 0, 13, 9}, 3, 4, {0, 0, 4, 3}, out);
  // Of PIL's resize of the same numbers in mode F, rounded at the end alone.
  const std::vector<int> expected = {23792, 28221, 33043, 37472, 30667, 35096,
                                     39918, 44347, 37542, 41971, 46793, 51222};
  ASSERT_EQ(out.pixels.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(out.pixels[i], expected[i], 1) << i;
}

TEST(PixelTransform, NearestEqualsPil) {
  const Image large{13, 9, 1, gradient(13, 9, 1, 1)}, small{4, 3, 1, gradient(4, 3, 1, 2)};
  Image out;
  resample(ImageView(large), Box{0, 0, 13, 9}, 3, 4, {0, 0, 4, 3}, out, Filter::nearest);
  EXPECT_EQ(out.pixels, (std::vector<uint8_t>{45, 54, 66, 75, 60, 69, 81, 90, 75, 84, 96, 105}));
  resample(ImageView(small), Box{0, 0, 4, 3}, 5, 8, {0, 0, 8, 5}, out, Filter::nearest);
  EXPECT_EQ(out.pixels,
            (std::vector<uint8_t>{74, 74, 77, 77, 80, 80, 83, 83, 74, 74, 77, 77, 80, 80,
                                  83, 83, 79, 79, 82, 82, 85, 85, 88, 88, 84, 84, 87, 87,
                                  90, 90, 93, 93, 84, 84, 87, 87, 90, 90, 93, 93}));
}

TEST(PixelTransform, AMaskGoesWithItsPicture) {
  // Two areas with a slanted edge, as brightness and as classes.
  Image picture{37, 29, 1, {}}, mask = picture;
  for (int y = 0; y < 29; ++y) {
    for (int x = 0; x < 37; ++x) {
      const bool inside = 2 * x + y > 40;
      picture.pixels.push_back(inside ? 200 : 20);
      mask.pixels.push_back(inside ? 5 : 0);
    }
  }
  PixelBuffers buffers;
  for (const auto& steps : many_steps()) {
    const PixelPlan plan({.steps = steps, .normalize = kUnitScale}, 1);
    for (uint64_t key = 0; key < 20; ++key) {
      KeyedRandom random(key);
      const Window classes = plan.place_mask(mask, random, buffers);
      const Window shown = plan.place(ImageView(picture), random, buffers);
      ASSERT_EQ(classes.box.width, shown.box.width);
      ASSERT_EQ(classes.box.height, shown.box.height);
      std::vector<int64_t> y(static_cast<size_t>(int64_t{shown.box.width} * shown.box.height));
      std::vector<float> x(y.size());
      to_classes(classes, y.data());
      plan.write(shown, x.data());
      int edge = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const float value = x[i] * 255;
        ASSERT_TRUE(y[i] == 0 || y[i] == 5 || y[i] == kIgnoredClass) << y[i];
        if (std::abs(value - 20) < 1)
          ASSERT_EQ(y[i], 0);
        else if (std::abs(value - 200) < 1)
          ASSERT_EQ(y[i], 5);
        else if (value < 20)
          ASSERT_EQ(y[i], kIgnoredClass);  // outside: 0 and the fill
        else
          ++edge;
      }
      EXPECT_LT(edge, 3 * (shown.box.width + shown.box.height));
    }
  }
}

TEST(PixelTransform, OneNumberNormalisesAllChannels) {
  const Image image{5, 4, 4, gradient(5, 4, 4, 1)};
  const auto message = [&](Normalize normalize) {
    return message_of<ValueError>(
        [&] { (void)to_tensor(pixels_of(image), {.normalize = std::move(normalize)}); });
  };
  EXPECT_EQ(message({.mean = {0.5f}, .std = {1, 1, 1, 2}}), "no error");
  EXPECT_EQ(
      message({.mean = {0, 0, 0}}),
      "[Normalize] 3 means and 1 stds; pictures of 4 channels need one of each for all, or 4");
  EXPECT_EQ(to_tensor(pixels_of(image), {}).to_vector<float>(),
            to_tensor(pixels_of(image), {.normalize = {{.5f, .5f, .5f, .5f}, {.5f, .5f, .5f, .5f}}})
                .to_vector<float>());
  EXPECT_EQ(to_tensor(ImageView({5, 4, 3, gradient(5, 4, 3, 1)})).size(0), 3);
}

}  // namespace
}  // namespace brim::data
