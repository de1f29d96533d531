// Decoding with the channels and bits of the file, and masks: formats, and files that are damaged.
#include <brim/core/error.h>
#include <brim/data/image.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "data/image/decode.h"
#include "data/keyed.h"
#include "data/png_writer.h"
#include "data/scratch.h"

namespace brim::data {
namespace {

using namespace tests;

std::vector<uint16_t> random_samples(int count, int bits) {
  KeyedRandom random(static_cast<uint64_t>(count * bits));
  std::vector<uint16_t> samples;
  for (int i = 0; i < count; ++i)
    samples.push_back(static_cast<uint16_t>(random.uniform(0, (1 << bits) - 1)));
  return samples;
}

PixelImage decoded(const std::vector<uint8_t>& bytes) {
  PixelImage image;
  decode_pixels(bytes, "x.png", image);
  return image;
}

std::vector<uint16_t> samples_of(const PixelImage& image) {
  return std::visit(
      [](const auto& of) { return std::vector<uint16_t>(of.pixels.begin(), of.pixels.end()); },
      image.pixels);
}

TEST(DecodePixels, ChannelsAndBitsOfAPngStay) {
  const std::vector<std::pair<int, int>> kinds = {{PNG_COLOR_TYPE_GRAY, 1},
                                                  {PNG_COLOR_TYPE_GRAY_ALPHA, 2},
                                                  {PNG_COLOR_TYPE_RGB, 3},
                                                  {PNG_COLOR_TYPE_RGB_ALPHA, 4}};
  for (const auto& [colour, channels] : kinds) {
    for (const int bits : {8, 16}) {
      const auto samples = random_samples(13 * 7 * channels, bits);
      const PixelImage image = decoded(png_of(samples, 13, 7, colour, bits));
      EXPECT_EQ(image.bits(), bits);
      EXPECT_EQ(image.shape(), (ImageShape{channels, 7, 13}));
      EXPECT_EQ(samples_of(image), samples) << channels << " channels of " << bits;
    }
  }
}

TEST(DecodePixels, FewBitsPalettesAndTransparencyAreExpanded) {
  EXPECT_EQ(samples_of(decoded(png_of({0, 1, 1, 0, 1}, 5, 1, PNG_COLOR_TYPE_GRAY, 1))),
            (std::vector<uint16_t>{0, 255, 255, 0, 255}));
  EXPECT_EQ(samples_of(decoded(png_of({0, 3, 1}, 3, 1, PNG_COLOR_TYPE_PALETTE, 2))),
            (std::vector<uint16_t>{255, 255, 255, 252, 252, 252, 254, 254, 254}));
  EXPECT_EQ(samples_of(decoded(png_of({0, 3}, 2, 1, PNG_COLOR_TYPE_PALETTE, 2, true))),
            (std::vector<uint16_t>{255, 255, 255, 0, 252, 252, 252, 255}));
  EXPECT_EQ(samples_of(decoded(png_of({0, 700}, 2, 1, PNG_COLOR_TYPE_GRAY, 16, true))),
            (std::vector<uint16_t>{0, 0, 700, 65535}));
}

TEST(DecodePixels, JpegsHaveOneOrThreeChannels) {
  const auto grey = gradient(16, 8, 1, 4);
  PixelImage image = decoded(encode_jpeg(grey, 16, 8, 1));
  EXPECT_EQ(image.shape(), (ImageShape{1, 8, 16}));
  Image rgb;
  decode_image(encode_jpeg(grey, 16, 8, 1), "x.jpg", rgb);
  const auto samples = samples_of(image);
  for (size_t i = 0; i < samples.size(); ++i) EXPECT_EQ(samples[i], rgb.pixels[3 * i]);
  EXPECT_EQ(decoded(jpeg(16, 8, 1)).shape(), (ImageShape{3, 8, 16}));
  EXPECT_EQ(decoded(encode_jpeg(gradient(8, 8, 4, 5), 8, 8, 4)).shape(), (ImageShape{3, 8, 8}));
}

TEST(DecodePixels, ChangesOfBitsReuseTheImage) {
  PixelImage image;
  decode_pixels(png_of({1, 2}, 2, 1, PNG_COLOR_TYPE_GRAY, 16), "x.png", image);
  EXPECT_EQ(image.bits(), 16);
  decode_pixels(png_of({1, 2}, 1, 2, PNG_COLOR_TYPE_GRAY, 8), "x.png", image);
  EXPECT_EQ(image.bits(), 8);
  EXPECT_EQ(image.shape(), (ImageShape{1, 2, 1}));
}

TEST(DecodeMask, NumbersStayAsTheyAre) {
  for (const int colour : {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_PALETTE}) {
    for (const int bits : {1, 2, 4, 8}) {
      const auto samples = random_samples(11 * 5, bits);
      for (const bool transparent : {false, true}) {
        Image mask;
        decode_mask(png_of(samples, 11, 5, colour, bits, transparent), "m.png", mask);
        EXPECT_EQ(mask.shape(), (ImageShape{1, 5, 11}));
        EXPECT_EQ((std::vector<uint16_t>(mask.pixels.begin(), mask.pixels.end())), samples);
      }
    }
  }
}

TEST(DecodeMask, OtherFilesAreRefused) {
  const auto message = [](const std::vector<uint8_t>& bytes) {
    Image mask;
    return message_of<FileError>([&] { decode_mask(bytes, "m.png", mask); });
  };
  EXPECT_EQ(message(jpeg(8, 8, 1)),
            "m.png: no PNG; masks are grey or palette PNGs, whose values are classes");
  EXPECT_EQ(message({}), "m.png: no PNG; masks are grey or palette PNGs, whose values are classes");
  EXPECT_EQ(message(png_of({1, 2}, 2, 1, PNG_COLOR_TYPE_GRAY, 16)),
            "m.png: a PNG of 16 bits and 1 channels; masks have one channel or a palette, and at "
            "most 8 bits");
  EXPECT_TRUE(
      has(message(png_of({1, 2, 3}, 1, 1, PNG_COLOR_TYPE_RGB, 8)), "8 bits and 3 channels"));
  EXPECT_TRUE(has(message(png_of({1, 2}, 1, 1, PNG_COLOR_TYPE_GRAY_ALPHA, 8)), "2 channels"));
}

TEST(DecodePixels, DamagedFilesAreRefused) {
  const auto samples = random_samples(16 * 16, 16);
  const auto good = png_of(samples, 16, 16, PNG_COLOR_TYPE_GRAY, 16);
  const auto mask = png_of(random_samples(16 * 16, 8), 16, 16, PNG_COLOR_TYPE_PALETTE, 8);
  PixelImage image;
  Image numbers;
  for (size_t size = 0; size < good.size(); size += 7) {
    EXPECT_THROW(decode_pixels({good.data(), size}, "cut", image), FileError) << size;
    EXPECT_THROW(decode_mask({mask.data(), std::min(size, mask.size() - 1)}, "cut", numbers),
                 FileError);
  }
  EXPECT_TRUE(has(message_of<FileError>([&] { decode_pixels(good, "x.png", image, 100); }),
                  "x.png: 16 x 16 pixels are more than the limit of 100"));
  EXPECT_TRUE(has(message_of<FileError>([&] { decode_mask(mask, "m.png", numbers, 100); }),
                  "m.png: 16 x 16 pixels are more than the limit of 100"));
  const std::vector<uint8_t> text = {'t', 'e', 'x', 't'};
  EXPECT_EQ(message_of<FileError>([&] { decode_pixels(text, "t", image); }),
            "t: not an image; expected JPEG or PNG");
  for (size_t i = 0; i < good.size(); ++i) {  // any byte may be wrong, as long as nothing breaks
    auto bad = good;
    bad[i] ^= 0x55;
    (void)message_of<FileError>([&] { decode_pixels(bad, "bad", image, 1 << 16); });
  }
}

TEST(DecodePixels, AsManyPixelsAsDeflatePacksAreTaken) {
  // Of a file of one pixel whose header says that it is so large.
  const auto declared = [](int size, int colour, int bits, const std::vector<uint16_t>& samples) {
    std::vector<uint8_t> file = png_of(samples, 1, 1, colour, bits);
    for (const size_t at : {18, 22})
      file[at] = static_cast<uint8_t>(size >> 8), file[at + 1] = static_cast<uint8_t>(size);
    const auto crc = crc32(0, file.data() + 12, 17);
    for (size_t k = 0; k < 4; ++k) file[29 + k] = static_cast<uint8_t>(crc >> (24 - 8 * k));
    PixelImage image;
    return message_of<FileError>([&] { decode_pixels(file, "x.png", image); });
  };
  EXPECT_TRUE(has(declared(200, PNG_COLOR_TYPE_RGB_ALPHA, 16, {1, 2, 3, 4}),
                  "x.png: the header declares 200 x 200 pixels but the file has only "));
  EXPECT_TRUE(has(declared(200, PNG_COLOR_TYPE_GRAY, 8, {1}), "damaged or truncated PNG"));
  const int size = 4096;  // 16 million black pixels in some 2 KiB
  const auto black =
      png_of(std::vector<uint16_t>(size_t{size} * size), size, size, PNG_COLOR_TYPE_GRAY, 1);
  EXPECT_GT(int64_t{size} * size / 7'000, static_cast<int64_t>(black.size()));
  EXPECT_EQ(decoded(black).shape(), (ImageShape{1, size, size}));
}

TEST(DecodePixels, FilesAreLoaded) {
  const TemporaryFolder folder;
  write_bytes(folder / "x.png", png_of({1, 700}, 2, 1, PNG_COLOR_TYPE_GRAY, 16));
  EXPECT_EQ(samples_of(load_pixels(folder / "x.png")), (std::vector<uint16_t>{1, 700}));
  EXPECT_THROW(load_pixels(folder / "y.png"), FileError);
}

}  // namespace
}  // namespace brim::data
