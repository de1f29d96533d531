// The drawn sets with masks and several labels: the same on every machine, and what they promise.
#include <brim/data/loader.h>
#include <brim/data/pictures.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "data/keyed.h"

namespace brim::data {
namespace {

/// Of all bits of the first samples.
uint64_t hash_of(const PictureDataPtr& data, int64_t samples) {
  uint64_t hash = 0;
  Sample sample;
  for (int64_t i = 0; i < samples; ++i) {
    data->get(i, sample);
    for (const SampleField& field : sample.fields())
      for (int64_t b = 0; b < field.bytes(); ++b)
        hash = key64(hash, static_cast<const uint8_t*>(field.data)[b]);
  }
  return hash;
}

const PictureOptions kUnitOptions{.transform = {.normalize = {{0}, {1}}}};

TEST(ShapesMasks, PixelsAreThoseOfEveryMachine) {
  // Changing these numbers changes every result that was ever measured on the set.
  EXPECT_EQ(hash_of(open_shapes_masks(Split::train, kUnitOptions), 20), 5691179312725563553u);
  EXPECT_EQ(hash_of(open_shapes_masks(Split::test, kUnitOptions), 20), 2816807650136082834u);
  EXPECT_EQ(hash_of(open_shapes_masks(Split::train, kUnitOptions, 7), 20), 6796462187571427883u);
}

TEST(ShapesLabels, PixelsAreThoseOfEveryMachine) {
  EXPECT_EQ(hash_of(open_shapes_labels(Split::train, kUnitOptions), 50), 7215099298011364043u);
  EXPECT_EQ(hash_of(open_shapes_labels(Split::test, kUnitOptions), 50), 10610008245875267909u);
}

TEST(ShapesMasks, EachPictureHasOneToThreeShapes) {
  const auto data = open_shapes_masks(Split::all);
  EXPECT_EQ(data->size(), 4500);
  EXPECT_EQ(data->names(),
            (std::vector<std::string>{"background", "circle", "square", "triangle"}));
  EXPECT_EQ(data->shape(), (ImageShape{3, 64, 64}));
  EXPECT_EQ(data->describe(4003), "shapes-masks test 3");
  std::array<int64_t, 4> pixels{};
  Sample sample;
  for (int64_t i = 3900; i < 4100; ++i) {
    data->get(i, sample);
    EXPECT_EQ(sample["x"].shape, (Shape{3, 64, 64}));
    std::set<int64_t> classes;
    for (const int64_t value : sample["y"].values<int64_t>()) {
      ASSERT_TRUE(value >= 0 && value < 4);
      ++pixels[static_cast<size_t>(value)];
      classes.insert(value);
    }
    EXPECT_GE(classes.size(), 2U) << i;
    EXPECT_LE(classes.size(), 4U) << i;
  }
  for (size_t c = 1; c < 4; ++c) EXPECT_GT(pixels[c], 200 * 4096 / 100) << c;  // 1 % each
}

TEST(ShapesLabels, AnyOfSixKindsArePresent) {
  const auto data = open_shapes_labels(Split::test);
  EXPECT_EQ(data->size(), 500);
  EXPECT_EQ(data->names(),
            (std::vector<std::string>{"circle", "cross", "ring", "square", "star", "triangle"}));
  EXPECT_EQ(data->shape(), (ImageShape{3, 32, 32}));
  std::array<int, 6> count{};
  std::array<int, 7> sizes{};
  Sample sample;
  for (int64_t i = 0; i < data->size(); ++i) {
    data->get(i, sample);
    const auto y = sample["y"].values<float>();
    ASSERT_EQ(y.size(), 6U);
    size_t present = 0;
    for (size_t k = 0; k < 6; ++k) {
      ASSERT_TRUE(y[k] == 0 || y[k] == 1);
      count[k] += y[k] == 1, present += y[k] == 1;
    }
    ++sizes[present];
  }
  for (const int n : count) EXPECT_NEAR(n, 500 / 3, 40);
  for (size_t n = 0; n <= 4; ++n) EXPECT_NEAR(sizes[n], 100, 40);
  EXPECT_EQ(sizes[5] + sizes[6], 0);
}

}  // namespace
}  // namespace brim::data
