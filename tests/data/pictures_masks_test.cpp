// Pictures with masks: layouts, values, and errors that name both files.
#include <brim/core/error.h>
#include <brim/data/loader.h>
#include <brim/data/pictures.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/picture_sets.h"

namespace brim::data {
namespace {

using namespace tests;

using Names = std::vector<std::string>;

class Masks : public ::testing::Test {
 protected:
  std::string path(const std::string& name = "") const { return folder_ / name; }
  /// Sample i as a batch of one.
  static Batch sample(const DatasetPtr& data, int64_t i, LoaderOptions options = {}) {
    options.batch = 1, options.workers = 0, options.shuffle = false;
    const Loader loader(data, options);
    return *loader.epoch(0, i).next();
  }
  std::string open_error(Split split = Split::train) const {
    return message_of<FileError>([&] { (void)open_segmentation(path(), split); });
  }

  TemporaryFolder folder_;
};

TEST_F(Masks, PicturesAndMasksGoTogether) {
  write_masked(path(), 3, 6, 5);
  const auto data =
      open_segmentation(path(), Split::train, {.transform = {.normalize = {{0}, {1}}}});
  EXPECT_EQ(data->size(), 3);
  EXPECT_EQ(data->names(), (Names{"0", "1", "2"}));
  EXPECT_EQ(data->shape(), (ImageShape{3, 5, 6}));
  EXPECT_TRUE(has(data->describe(1), "images/p101.png"));
  const Batch b = sample(data, 2);
  EXPECT_EQ(b.x.shape(), (Shape{1, 3, 5, 6}));
  EXPECT_EQ(b.y.shape(), (Shape{1, 5, 6}));
  EXPECT_EQ(b.y.dtype(), i64);
  const auto x = b.x.to_vector<float>();
  const auto pixels = gradient(6, 5, 3, 2);
  for (size_t p = 0; p < 30; ++p) EXPECT_EQ(x[30 + p], static_cast<float>(pixels[3 * p + 1]) / 255);
  const auto y = b.y.to_vector<int64_t>();
  EXPECT_EQ(y[0], kIgnoredClass);
  for (int64_t p = 1; p < 30; ++p) EXPECT_EQ(y[static_cast<size_t>(p)], (2 + p % 6 + p / 6) % 3);
}

TEST_F(Masks, CropsReachBeyondBoth) {
  write_masked(path(), 1, 6, 5);
  const auto data = open_segmentation(
      path(), Split::train,
      {.transform = {.steps = {CenterCrop{.height = 7, .width = 8}, HorizontalFlip{.p = 1}},
                     .normalize = {{0}, {1}}}});
  EXPECT_EQ(data->shape(), (ImageShape{3, 7, 8}));
  const Batch b = sample(data, 0);
  const auto y = b.y.to_vector<int64_t>();
  for (int64_t p = 0; p < 56; ++p) {
    const int64_t row = p / 8 - 1, column = 6 - p % 8;  // mirrored
    const bool inside = row >= 0 && row < 5 && column >= 0 && column < 6;
    const bool corner = row == 0 && column == 0;
    EXPECT_EQ(y[static_cast<size_t>(p)], inside && !corner ? (row + column) % 3 : kIgnoredClass)
        << p;
  }
}

TEST_F(Masks, SplitsLieInFolders) {
  write_masked(path("train"), 4, 6, 5);
  write_masked(path("val"), 2, 6, 5);
  EXPECT_EQ(open_segmentation(path(), Split::train)->size(), 4);
  const auto val = open_segmentation(path(), Split::test);
  EXPECT_EQ(val->size(), 2);
  EXPECT_TRUE(has(val->describe(0), "val/images/p100.png"));
  write_masked(path("test"), 3, 6, 5);  // val is left alone then
  EXPECT_EQ(open_segmentation(path(), Split::test)->size(), 3);
  const auto all = open_segmentation(path(), Split::all);
  EXPECT_EQ(all->size(), 7);
  EXPECT_TRUE(has(all->describe(0), "train/"));
  EXPECT_TRUE(has(all->describe(6), "test/"));
  write_masked(path(), 1, 6, 5);
  EXPECT_TRUE(has(open_error(), "has images/ and also train/images/; move one of them away"));
}

TEST_F(Masks, AMissingSplitIsSaid) {
  write_masked(path(), 2, 6, 5);
  EXPECT_TRUE(has(message_of<NoSuchSplit>([&] { (void)open_segmentation(path(), Split::test); }),
                  "has no test split; images/ and masks/ are all train"));
  EXPECT_EQ(open_segmentation(path(), Split::all)->size(), 2);
  const TemporaryFolder other;
  write_masked(other / "test", 2, 6, 5);
  EXPECT_THROW((void)open_segmentation(other / "", Split::train), NoSuchSplit);
}

TEST_F(Masks, ClassesOfAllSplitsOrOfAFile) {
  write_masked(path("train"), 1, 6, 5);
  write_masked(path("test"), 1, 6, 5);
  write_bytes(path("test/masks/p100.png"), mask_png(6, 5, 5, 0));
  EXPECT_EQ(open_segmentation(path(), Split::train)->names().size(), 5U);
  write_text(path("classes.txt"), "sky\r\n road\ncar\n\n");
  EXPECT_EQ(open_segmentation(path(), Split::train)->names(), (Names{"sky", "road", "car"}));
  write_text(path("classes.txt"), "sky\nsky\n");
  EXPECT_TRUE(has(open_error(), "classes.txt: labels 0 and 1 both name their class 'sky'"));
  write_text(path("classes.txt"), "\n\n");
  EXPECT_TRUE(has(open_error(), "classes.txt: 0 classes; expected 1 to 255"));
  std::string many;
  for (int i = 0; i < 256; ++i) many += std::to_string(i) + "\n";
  write_text(path("classes.txt"), many);
  EXPECT_TRUE(has(open_error(), "classes.txt: 256 classes"));
}

TEST_F(Masks, PalettesSuffixesAndFoldersBelow) {
  write_bytes(path("images/town/a.jpg"), jpeg(8, 8, 1));
  write_bytes(path("masks/town/a.png"),
              png_of(std::vector<uint16_t>(64, 3), 8, 8, PNG_COLOR_TYPE_PALETTE, 2));
  const auto data = open_segmentation(path(), Split::train);
  EXPECT_EQ(data->names().size(), 4U);
  EXPECT_EQ(sample(data, 0).y.to_vector<int64_t>(), std::vector<int64_t>(64, 3));
}

TEST_F(Masks, WhatDoesNotFitNamesBothFiles) {
  write_masked(path(), 4, 6, 5);
  write_text(path("classes.txt"), "a\nb\nc\n");
  write_bytes(path("masks/p101.png"), mask_png(7, 5, 3, 0));
  write_bytes(path("masks/p102.png"), mask_png(6, 5, 4, 0));
  write_bytes(path("masks/p103.png"), encode_png(gradient(6, 5, 3, 0), 6, 5, 3));
  const auto data = open_segmentation(path(), Split::train);
  const auto message = [&](int64_t i) {
    return message_of<FileError>([&] { (void)sample(data, i); });
  };
  EXPECT_TRUE(has(message(1), "images/p101.png: 6 x 5 pixels, and its mask"));
  EXPECT_TRUE(has(message(1), "masks/p101.png has 7 x 5"));
  EXPECT_TRUE(has(message(2), "images/p102.png: its mask"));
  EXPECT_TRUE(has(message(2),
                  "masks/p102.png has 3 in column 3 of row 0; there are 3 classes (0 to 2, "
                  "and 255 for none)"));
  EXPECT_TRUE(has(message(3), "images/p103.png: "));
  EXPECT_TRUE(has(message(3), "masks/p103.png: a PNG of 8 bits and 3 channels"));
  const Loader loader(data, {.batch = 4, .on_error = OnError::skip});
  for (const Batch& b : loader.epoch(0)) EXPECT_EQ(b.x.size(0), 1);
  EXPECT_EQ(loader.skipped(), 3);
}

TEST_F(Masks, WhatIsMissingIsSaid) {
  EXPECT_TRUE(has(open_error(), "no images/ with masks/ beside it"));
  write_bytes(path("images/a.png"), encode_png(gradient(6, 5, 3, 0), 6, 5, 3));
  EXPECT_TRUE(has(open_error(), "masks: no such folder; the masks of"));
  write_bytes(path("masks/b.png"), mask_png(6, 5, 3, 0));
  EXPECT_TRUE(has(open_error(), "images/a.png: its mask "));
  EXPECT_TRUE(has(open_error(), "masks/a.png is missing"));
  write_bytes(path("masks/a.png"),
              png_of(std::vector<uint16_t>(30, 255), 6, 5, PNG_COLOR_TYPE_GRAY, 8));
  EXPECT_TRUE(has(open_error(), "all values of all masks are 255, no class"));
  write_bytes(path("masks/a.jpg"), jpeg(6, 5, 1));  // is no mask
  EXPECT_TRUE(has(open_error(), "all values of all masks are 255, no class"));
  write_bytes(path("masks/a.PNG"), mask_png(6, 5, 3, 0));
  EXPECT_TRUE(has(open_error(), ": a second mask beside a."));
}

TEST_F(Masks, ChannelsAreThoseOfTheFirstOrConverted) {
  write_masked(path(), 2, 6, 5);
  write_bytes(path("images/p101.png"), encode_png(gradient(6, 5, 1, 1), 6, 5, 1));
  EXPECT_TRUE(
      has(message_of<FileError>([&] { (void)sample(open_segmentation(path(), Split::train), 1); }),
          "p101.png: 1 channels, and the first picture has 3; PictureOptions::channels"));
  const Transform unit{.normalize = {{0}, {1}}};
  const auto x = [&](int channels, int64_t i) {
    const auto data =
        open_segmentation(path(), Split::train, {.transform = unit, .channels = channels});
    EXPECT_EQ(data->shape().channels, channels);
    return sample(data, i).x.to_vector<float>();
  };
  const auto grey = gradient(6, 5, 1, 1), rgb = gradient(6, 5, 3, 0);
  EXPECT_EQ(x(3, 1)[30], static_cast<float>(grey[0]) / 255);
  EXPECT_EQ(x(4, 1)[90], 1);  // opaque
  EXPECT_EQ(x(2, 0)[30], 1);
  const double luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
  EXPECT_NEAR(x(1, 0)[0] * 255, luma, 0.51);
  EXPECT_THROW((void)open_segmentation(path(), Split::train, {.channels = 5}), ValueError);
  EXPECT_TRUE(has(
      message_of<ValueError>([&] {
        (void)open_segmentation(path(), Split::train, {.transform = {.normalize = {{0, 0}, {1}}}});
      }),
      "[Normalize] 2 means"));
}

TEST_F(Masks, PicturesOfSeveralSizesArePadded) {
  write_masked(path(), 2, 6, 5);
  write_bytes(path("images/p101.png"), encode_png(gradient(4, 7, 3, 1), 4, 7, 3));
  write_bytes(path("masks/p101.png"), mask_png(4, 7, 3, 1));
  const auto data = open_segmentation(path(), Split::train);
  EXPECT_TRUE(has(message_of<ShapeError>([&] { (void)sample(data, 1); }), "p101.png: field 'x'"));
  const Collate collate = pad({.values = {{"y", 255}}});
  const Batch b = *Loader(data, {.batch = 2, .shuffle = false, .collate = collate}).epoch(0).next();
  EXPECT_EQ(b.x.shape(), (Shape{2, 3, 7, 6}));
  EXPECT_EQ(b.y.shape(), (Shape{2, 7, 6}));
  EXPECT_EQ(b.y[1][6][5].item<int64_t>(), kIgnoredClass);
  EXPECT_EQ(b.y[1][6][3].item<int64_t>(), (1 + 6 + 3) % 3);
}

TEST_F(Masks, ABrokenFirstPictureHidesNoShape) {
  write_masked(path(), 2, 6, 5);
  write_text(path("images/p100.png"), "no picture");
  const auto data = open_segmentation(path(), Split::train);
  EXPECT_EQ(data->shape(), (ImageShape{3, 5, 6}));
  EXPECT_TRUE(has(message_of<FileError>([&] { (void)sample(data, 0); }), "p100.png: not an image"));
  write_text(path("images/p101.png"), "");
  EXPECT_TRUE(has(open_error(), "p101.png: empty file"));
}

}  // namespace
}  // namespace brim::data
