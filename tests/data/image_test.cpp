// Decoding: formats, and files that are damaged in every way.
#include <brim/core/error.h>
#include <brim/data/image.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/image/jpeg.h"
#include "data/keyed.h"
#include "data/scratch.h"

namespace brim::data {
namespace {

using namespace tests;

double mean_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

TEST(Image, PngIsExact) {
  const auto pixels = gradient(13, 7, 3, 1);
  Image image;
  decode_image(encode_png(pixels, 13, 7, 3), "x.png", image);
  EXPECT_EQ(image.shape(), (ImageShape{3, 7, 13}));
  EXPECT_EQ(image.pixels, pixels);
}

TEST(Image, GreyAndAlphaBecomeRgb) {
  const auto grey = gradient(9, 5, 1, 2);
  Image image;
  decode_image(encode_png(grey, 9, 5, 1), "grey.png", image);
  ASSERT_EQ(image.pixels.size(), grey.size() * 3);
  for (size_t i = 0; i < grey.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) ASSERT_EQ(image.pixels[3 * i + c], grey[i]);
  }
  const auto rgba = gradient(9, 5, 4, 3);
  decode_image(encode_png(rgba, 9, 5, 4), "rgba.png", image);
  ASSERT_EQ(image.pixels.size(), size_t{9 * 5 * 3});
  decode_image(encode_jpeg(gradient(16, 16, 1, 4), 16, 16, 1), "grey.jpg", image);
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(image.pixels[0], image.pixels[1]);
}

TEST(Image, JpegIsClose) {
  const auto pixels = gradient(40, 24, 3, 5);
  Image image;
  decode_image(encode_jpeg(pixels, 40, 24, 3), "x.jpg", image);
  EXPECT_EQ(image.shape(), (ImageShape{3, 24, 40}));
  EXPECT_LT(mean_difference(image.pixels, pixels), 25);
  decode_image(encode_jpeg(gradient(8, 8, 4, 5), 8, 8, 4), "cmyk.jpg", image);
  EXPECT_EQ(image.shape(), (ImageShape{3, 8, 8}));
}

TEST(JpegFile, APartIsCutFromTheWhole) {
  KeyedRandom random(7);
  for (const JpegKind& kind : {JpegKind{2, 2},
                               {2, 1},
                               {1, 1},
                               {1, 2},
                               {4, 1},
                               {4, 2},
                               {2, 4},
                               {2, 2, true},
                               {2, 2, true, true}}) {
    const auto bytes = encode_jpeg(gradient(149, 131, 3, 2), 149, 131, 3, kind);
    for (const int eighths : {1, 2, 4, 8}) {
      Image whole, part;
      JpegFile all(bytes, "x.jpg");
      const Box full = all.decode(eighths, {0, 0, 149, 131}, whole);
      EXPECT_EQ(full, (Box{0, 0, (149 * eighths + 7) / 8, (131 * eighths + 7) / 8}));
      for (int round = 0; round < 60; ++round) {
        const int x = random.uniform(0, 148), y = random.uniform(0, 130);
        const Box box{x, y, random.uniform(1, 149 - x), random.uniform(1, 131 - y)};
        JpegFile file(bytes, "x.jpg");
        const Box place = file.decode(eighths, box, part);
        const int left = box.x * eighths / 8, right = ((box.x + box.width) * eighths + 7) / 8;
        const int top = box.y * eighths / 8, bottom = ((box.y + box.height) * eighths + 7) / 8;
        ASSERT_LE(place.x, left);
        ASSERT_GE(place.x + place.width, std::min(right, full.width));
        ASSERT_LE(place.y, top);
        ASSERT_GE(place.y + place.height, bottom);
        for (int row = top; row < bottom; ++row) {
          for (int column = left; column < std::min(right, full.width); ++column) {
            for (int c = 0; c < 3; ++c) {
              ASSERT_EQ(ImageView(part).at(c, row - place.y, column - place.x),
                        ImageView(whole).at(c, row, column))
                  << kind.across << " x " << kind.down << (kind.progressive ? " progressive" : "")
                  << (kind.coarse ? " without detail" : "") << ", " << eighths << " eighths, row "
                  << row << " of " << top << " to " << bottom << ", column " << column << " of "
                  << left << " to " << right;
            }
          }
        }
      }
    }
  }
}

TEST(JpegFile, InksAndGreyHavePartsToo) {
  for (const int channels : {1, 4}) {
    const auto bytes = encode_jpeg(gradient(64, 48, channels, 5), 64, 48, channels, {1, 1});
    Image whole, part;
    decode_image(bytes, "x.jpg", whole);
    JpegFile file(bytes, "x.jpg");
    const Box place = file.decode(8, {40, 30, 10, 8}, part);
    for (int y = 30; y < 38; ++y) {
      for (int x = 40; x < 50; ++x) {
        for (int c = 0; c < 3; ++c)
          ASSERT_EQ(ImageView(part).at(c, y - place.y, x - place.x), ImageView(whole).at(c, y, x));
      }
    }
  }
}

TEST(Image, EveryTruncationIsAnError) {
  Image image;
  for (const auto& bytes : {jpeg(32, 32, 6), encode_png(gradient(32, 32, 3, 6), 32, 32, 3)}) {
    for (size_t keep = 0; keep + 2 < bytes.size(); keep += 1 + keep / 40) {
      const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(keep));
      const auto text = message_of<FileError>([&] { decode_image(cut, "cut/file", image); });
      EXPECT_EQ(text.rfind("cut/file: ", 0), 0u) << text;
    }
  }
}

TEST(Image, CorruptBytesNeverCrash) {
  Image image;
  uint32_t state = 1;
  for (const auto& good : {jpeg(32, 32, 7), encode_png(gradient(32, 32, 3, 7), 32, 32, 3)}) {
    for (int round = 0; round < 300; ++round) {
      auto bytes = good;
      for (int k = 0; k < 3; ++k) {
        state = state * 1664525 + 1013904223;
        bytes[(state >> 8) % bytes.size()] = static_cast<uint8_t>(state >> 24);
      }
      try {
        decode_image(bytes, "noisy", image, 1 << 20);
      } catch (const FileError&) {
      }
    }
  }
}

TEST(Image, RefusesWhatIsNoImage) {
  Image image;
  EXPECT_NE(
      message_of<FileError>([&] { decode_image({}, "e.jpg", image); }).find("e.jpg: empty file"),
      std::string::npos);
  const std::vector<uint8_t> text = {'h', 'e', 'l', 'l', 'o', ' ', 'w', 'o', 'r', 'l', 'd'};
  EXPECT_NE(message_of<FileError>([&] {
              decode_image(text, "t.jpg", image);
            }).find("expected JPEG or PNG"),
            std::string::npos);
  EXPECT_NE(message_of<FileError>([&] {
              decode_image(jpeg(64, 64, 1), "big.jpg", image, 1000);
            }).find("limit"),
            std::string::npos);
}

TEST(Image, DeclaredSizeIsCheckedBeforeMemoryIsTaken) {
  // A 60,000 x 2,000 header on a file of a few hundred bytes.
  auto bytes = jpeg(16, 16, 1);
  for (size_t i = 0; i + 9 < bytes.size(); ++i) {
    if (bytes[i] == 0xff && bytes[i + 1] == 0xc0) {
      bytes[i + 5] = 0x07, bytes[i + 6] = 0xd0, bytes[i + 7] = 0xea, bytes[i + 8] = 0x60;
    }
  }
  Image image;
  const auto text = message_of<FileError>([&] { decode_image(bytes, "bomb.jpg", image); });
  EXPECT_NE(text.find("60000 x 2000"), std::string::npos) << text;
  EXPECT_LT(image.pixels.capacity(), size_t{1} << 20);
}

TEST(Image, ManyScansAreRefused) {
  // 379 scans, then 568: each costs a pass over the picture, however few bytes it has.
  Image image;
  decode_image(jpeg_of_many_scans(2), "x.jpg", image);
  EXPECT_EQ(image.shape(), (ImageShape{3, 8, 8}));
  const auto text =
      message_of<FileError>([&] { decode_image(jpeg_of_many_scans(3), "scans.jpg", image); });
  EXPECT_EQ(text, "scans.jpg: damaged or truncated JPEG (more than 500 scans)");
}

TEST(Image, LoadNamesThePath) {
  const TemporaryFolder folder;
  EXPECT_NE(
      message_of<FileError>([&] { load_image(folder / "none.png"); }).find("none.png: cannot open"),
      std::string::npos);
  EXPECT_NE(message_of<FileError>([&] { load_image(folder.path()); }).find("not a regular file"),
            std::string::npos);
  write_bytes(folder / "a.jpg", jpeg(10, 6, 1));
  EXPECT_EQ(load_image(folder / "a.jpg").shape(), (ImageShape{3, 6, 10}));
}

}  // namespace
}  // namespace brim::data
