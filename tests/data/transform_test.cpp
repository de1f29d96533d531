// Transforms: pixels equal to PIL's and torchvision's, windows against a plain pixel loop.
#include <brim/core/error.h>
#include <brim/data/transform.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "data/keyed.h"
#include "data/scratch.h"
#include "data/transform/byte_scale.h"
#include "data/transform/plan.h"
#include "data/transform/random_resized_crop.h"
#include "data/transform/resample.h"

namespace brim::data {
namespace {

using namespace tests;

Image picture(int width, int height, int seed) {
  return {width, height, 3, gradient(width, height, 3, seed)};
}

// The same picture as planes.
std::vector<uint8_t> planes_of(const Image& image) {
  std::vector<uint8_t> planes;
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) planes.push_back(ImageView(image).at(c, y, x));
    }
  }
  return planes;
}

const Normalize kToUnit{.mean = {0, 0, 0}, .std = {1, 1, 1}};

// The bytes behind a tensor made with kToUnit.
std::vector<int> bytes_of(const Tensor& tensor) {
  std::vector<int> bytes;
  for (const float x : tensor.to_vector<float>()) bytes.push_back(static_cast<int>(x * 255 + 0.5f));
  return bytes;
}

TEST(Resample, EqualsPil) {
  // Image.resize(size, BILINEAR) of PIL 13.0 on the same gradients, the last after crop((2, 1, 11,
  // 9)).
  const std::vector<uint8_t> down = {47, 48, 48, 56, 60, 63, 66, 72, 79, 75,  84,  94,
                                     61, 59, 56, 70, 71, 71, 80, 83, 87, 89,  95,  102,
                                     75, 70, 64, 84, 82, 79, 94, 94, 95, 103, 106, 110};
  const std::vector<uint8_t> up = {
      74, 74, 74, 76, 76, 77, 78, 79, 80, 79, 81, 83, 82, 84, 87, 83, 86, 89, 76, 76, 75, 78, 78,
      78, 80, 81, 81, 81, 83, 84, 84, 86, 88, 85, 88, 90, 79, 78, 77, 81, 80, 80, 83, 83, 83, 84,
      85, 86, 87, 88, 90, 88, 90, 92, 82, 80, 79, 84, 82, 82, 86, 85, 85, 87, 87, 88, 90, 90, 92,
      91, 92, 94, 84, 82, 80, 86, 84, 83, 88, 87, 86, 89, 89, 89, 92, 92, 93, 93, 94, 95};
  const std::vector<uint8_t> boxed = {56, 56, 57, 63, 64, 67, 69, 74, 79, 76, 82,  89,
                                      68, 66, 65, 75, 74, 75, 81, 84, 87, 88, 92,  97,
                                      79, 76, 72, 86, 84, 82, 92, 94, 94, 99, 102, 104};
  Image out;
  const Image large = picture(13, 9, 1), small = picture(4, 3, 2);
  resample(large, {0, 0, 13, 9}, 3, 4, out);
  EXPECT_EQ(out.pixels, down);
  resample(small, {0, 0, 4, 3}, 5, 6, out);
  EXPECT_EQ(out.pixels, up);
  resample(large, {2, 1, 9, 8}, 3, 4, out);
  EXPECT_EQ(out.pixels, boxed);
  const auto planes = planes_of(large);
  resample(ImageView(planes.data(), {3, 9, 13}, PixelOrder::chw), {2, 1, 9, 8}, 3, 4, out);
  EXPECT_EQ(out.pixels, boxed);
}

TEST(Transform, ToFloatIsExact) {
  const Image image = picture(5, 4, 3);
  const auto got = to_tensor(image).to_vector<float>();
  const auto planes = planes_of(image);
  ASSERT_EQ(got.size(), planes.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], (static_cast<float>(planes[i]) / 255.0f - 0.5f) / 0.5f);
  }
  EXPECT_EQ(to_tensor(ImageView(planes.data(), {3, 4, 5}, PixelOrder::chw)).to_vector<float>(),
            got);
  EXPECT_EQ(to_tensor(image).shape(), (Shape{3, 4, 5}));
}

TEST(ByteScale, VectorsMakeTheBitsOfTheDivisions) {
  KeyedRandom random(9);
  std::vector<uint8_t> bytes(256);
  for (size_t i = 0; i < 256; ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  for (int round = 0; round < 300; ++round) {
    const float mean = random.unit() - 0.25f, std = round % 3 ? random.unit() + 1e-3f : 1e-20f;
    const ByteScale scale(mean, std);
    const int count = round == 0 ? 256 : random.uniform(0, 70);
    const bool flip = random.uniform(0, 1) != 0;
    std::vector<float> got(static_cast<size_t>(count)), expected;
    scale.convert({bytes.data(), 0, got.data(), 0, count, 1, flip});
    for (int i = 0; i < count; ++i) {
      const auto byte = static_cast<float>(bytes[static_cast<size_t>(flip ? count - 1 - i : i)]);
      expected.push_back((byte / 255.0f - mean) / std);
    }
    ASSERT_EQ(got, expected) << mean << " " << std << " " << count;
  }
}

TEST(Transform, WindowsEqualAPlainLoop) {
  // Random pipelines of crops and flips, by the fast way and by copying pixels step by step.
  KeyedRandom random(5);
  for (int round = 0; round < 200; ++round) {
    Image image = picture(random.uniform(1, 12), random.uniform(1, 12), round);
    const auto planes = planes_of(image);
    const Image source = image;
    Transform transform{.normalize = kToUnit};
    for (int i = random.uniform(0, 4); i > 0; --i) {
      const int height = random.uniform(1, 14), width = random.uniform(1, 14);
      Image next{width, height, 3, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))};
      if (random.uniform(0, 1) != 0) {
        transform.steps.push_back(HorizontalFlip{.p = 1});
        next = image;
        for (int y = 0; y < next.height; ++y) {
          for (int x = 0; x < next.width; ++x) {
            for (int c = 0; c < 3; ++c) {
              next.pixels[static_cast<size_t>((y * next.width + x) * 3 + c)] =
                  ImageView(image).at(c, y, next.width - 1 - x);
            }
          }
        }
      } else {
        transform.steps.push_back(CenterCrop{.height = height, .width = width});
        const auto offset = [](int a, int b) {
          return a >= b ? static_cast<int>(std::nearbyint((a - b) / 2.0)) : -((b - a) / 2);
        };
        const int top = offset(image.height, height), left = offset(image.width, width);
        for (int y = 0; y < height; ++y) {
          for (int x = 0; x < width; ++x) {
            const int from_y = y + top, from_x = x + left;
            if (from_y < 0 || from_x < 0 || from_y >= image.height || from_x >= image.width)
              continue;
            for (int c = 0; c < 3; ++c) {
              next.pixels[static_cast<size_t>((y * width + x) * 3 + c)] =
                  ImageView(image).at(c, from_y, from_x);
            }
          }
        }
      }
      image = next;
    }
    const auto expected = planes_of(image);
    const std::vector<int> want(expected.begin(), expected.end());
    EXPECT_EQ(bytes_of(to_tensor(source, transform)), want) << round;
    EXPECT_EQ(
        bytes_of(to_tensor(ImageView(planes.data(), source.shape(), PixelOrder::chw), transform)),
        want)
        << round;
  }
}

TEST(Transform, RandomCropTakesEveryPlaceAndPads) {
  const Image image = picture(4, 4, 1);
  const Transform transform{.steps = {RandomCrop{.height = 4, .padding = 1, .fill = 200}},
                            .normalize = kToUnit};
  std::vector<int> places(9);
  for (uint64_t key = 0; key < 900; ++key) {
    const auto bytes = bytes_of(to_tensor(image, transform, key));
    int found = 0;
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        bool equal = true;
        for (int i = 0; i < 48; ++i) {
          const int c = i / 16, y = i / 4 % 4 + dy, x = i % 4 + dx;
          const bool inside = y >= 0 && x >= 0 && y < 4 && x < 4;
          equal &= bytes[static_cast<size_t>(i)] == (inside ? ImageView(image).at(c, y, x) : 200);
        }
        if (equal) ++places[static_cast<size_t>((dy + 1) * 3 + dx + 1)], ++found;
      }
    }
    ASSERT_EQ(found, 1);
  }
  for (const int count : places) EXPECT_NEAR(count, 100, 50);
}

TEST(Transform, FlipFollowsItsProbability) {
  const Image image = picture(3, 1, 1);
  const Transform transform{.steps = {HorizontalFlip{.p = 0.25}}};
  const auto straight = to_tensor(image).to_vector<float>();
  int flips = 0;
  for (uint64_t key = 0; key < 1000; ++key)
    flips += to_tensor(image, transform, key).to_vector<float>() != straight;
  EXPECT_NEAR(flips, 250, 60);
}

TEST(Transform, ResizeKeepsTheShapeOfTheShorterSide) {
  EXPECT_EQ(to_tensor(picture(30, 20, 1), {.steps = {Resize{.height = 10}}}).shape(),
            (Shape{3, 10, 15}));
  EXPECT_EQ(to_tensor(picture(20, 31, 1), {.steps = {Resize{.height = 10}}}).shape(),
            (Shape{3, 15, 10}));
  EXPECT_EQ(to_tensor(picture(20, 31, 1),
                      {.steps = {Resize{8, 9}, HorizontalFlip{}, CenterCrop{6}, Resize{5, 4}}})
                .shape(),
            (Shape{3, 5, 4}));
  // Resizing to the same size changes nothing.
  const Image image = picture(8, 8, 1);
  EXPECT_EQ(to_tensor(image, {.steps = {Resize{.height = 8}}}).to_vector<float>(),
            to_tensor(image).to_vector<float>());
}

TEST(Transform, CropOfAResizeEqualsTheTwoInTurn) {
  KeyedRandom random(3);
  for (int round = 0; round < 100; ++round) {
    const Image image = picture(random.uniform(1, 40), random.uniform(1, 40), round);
    const Resize resize{.height = random.uniform(1, 20),
                        .width = random.uniform(0, 1) * random.uniform(1, 20)};
    const CenterCrop crop{.height = random.uniform(1, 24), .width = random.uniform(0, 24)};
    // A flip that never happens keeps them apart.
    const Transform together{.steps = {resize, crop}};
    const Transform apart{.steps = {resize, HorizontalFlip{.p = 0}, crop}};
    EXPECT_EQ(to_tensor(image, together).to_vector<float>(),
              to_tensor(image, apart).to_vector<float>())
        << round;
  }
}

TEST(Transform, OblongPicturesTakeNoMoreThanTheirCrop) {
  // Resized as a whole they would have 3 billion pixels; 16,000,000 x 32 is above 2^31 on its way.
  for (const int side : {1 << 10, 1 << 15}) {
    for (const bool wide : {false, true}) {
      const Image image{wide ? 3'000'000 : 1, wide ? 1 : 3'000'000, 3,
                        std::vector<uint8_t>(9'000'000, 51)};
      const Tensor x =
          to_tensor(image, {.steps = {Resize{.height = side}, CenterCrop{.height = 32}}});
      EXPECT_EQ(x.to_vector<float>(), std::vector<float>(3 * 32 * 32, 51 / 255.0f / 0.5f - 1));
      const auto text =
          message_of<FileError>([&] { to_tensor(image, {.steps = {Resize{.height = side}}}); });
      EXPECT_NE(text.find("more than 134217728 pixels"), std::string::npos) << text;
    }
  }
  Image out;
  const Image tall{1, 6'000'000, 3, std::vector<uint8_t>(18'000'000)};
  EXPECT_THROW(resample(tall, {0, 0, 1, 6'000'000}, 32, 32, out), FileError);
}

TEST(RandomResizedCrop, PartsHaveTheAskedAreaAndShape) {
  const RandomResizedCrop step{.height = 8, .scale = {0.2, 0.5}, .ratio = {0.5, 1.5}};
  std::set<std::pair<int, int>> corners;
  double least = 1, most = 0;
  for (uint64_t key = 0; key < 500; ++key) {
    KeyedRandom random(key), again(key);
    const Box part = choose_part(step, 400, 300, random);
    EXPECT_EQ(part, choose_part(step, 400, 300, again));
    ASSERT_GE(part.x, 0);
    ASSERT_GE(part.y, 0);
    ASSERT_LE(part.x + part.width, 400);
    ASSERT_LE(part.y + part.height, 300);
    const double area = part.width * part.height / 120000.0;
    EXPECT_NEAR(area, 0.35, 0.16);
    EXPECT_NEAR(std::log(1.0 * part.width / part.height), std::log(std::sqrt(0.75)), 0.56);
    least = std::min(least, area), most = std::max(most, area);
    corners.insert({part.x, part.y});
  }
  EXPECT_LT(least, 0.22);
  EXPECT_GT(most, 0.48);
  EXPECT_GT(corners.size(), 450u);
  const RandomResizedCrop strip{.height = 8, .scale = {1, 1}, .ratio = {0.5, 2}};
  // No such part fits into a strip: the middle of it, in the nearest shape.
  KeyedRandom random(1);
  EXPECT_EQ(choose_part(strip, 100, 10, random), (Box{40, 0, 20, 10}));
  EXPECT_EQ(choose_part(strip, 10, 100, random), (Box{0, 40, 10, 20}));
  EXPECT_EQ(choose_part({.height = 8}, 1, 1, random), (Box{0, 0, 1, 1}));
}

TEST(RandomResizedCrop, DecodesNoSmallerThanTheResult) {
  const RandomResizedCrop step{.height = 50, .width = 100};
  EXPECT_EQ(choose_eighths(step, {0, 0, 199, 400}), 8);
  EXPECT_EQ(choose_eighths(step, {0, 0, 200, 100}), 4);
  EXPECT_EQ(choose_eighths(step, {0, 0, 400, 200}), 2);
  EXPECT_EQ(choose_eighths(step, {0, 0, 400, 199}), 4);
  EXPECT_EQ(choose_eighths(step, {0, 0, 30000, 20000}), 1);
}

TEST(RandomResizedCrop, EqualsCropAndResize) {
  const Image image = picture(37, 29, 4);
  const RandomResizedCrop step{.height = 9, .width = 11};
  for (uint64_t key = 0; key < 50; ++key) {
    KeyedRandom random(key);
    const Box part = choose_part(step, 37, 29, random);
    Image expected;
    resample(image, part, 9, 11, expected);
    const Transform transform{.steps = {step, HorizontalFlip{.p = 1}}, .normalize = kToUnit};
    const auto got = to_tensor(image, transform, key);
    EXPECT_EQ(got.to_vector<float>(),
              to_tensor(expected, {.steps = {HorizontalFlip{.p = 1}}, .normalize = kToUnit})
                  .to_vector<float>());
  }
}

// What the loader makes of a file.
std::vector<float> from_file(const std::vector<uint8_t>& bytes, const RandomResizedCrop& step,
                             uint64_t key) {
  const TransformPlan plan({.steps = {step, HorizontalFlip{}}, .normalize = kToUnit});
  TransformScratch scratch;
  std::vector<float> out(static_cast<size_t>(3 * step.height * step.height));
  plan.apply_file(bytes, "x.jpg", key,
                  {.shape = {3, step.height, step.height}, .floats = out.data()}, scratch);
  return out;
}

TEST(RandomResizedCrop, WholeDecodeHasThePixelsOfThePicture) {
  const auto pixels = gradient(150, 130, 3, 2);
  const RandomResizedCrop step{.height = 16, .scaled_decode = false};
  for (const JpegKind& kind : {JpegKind{2, 2}, {2, 1}, {1, 1}, {1, 2}, {2, 2, true}}) {
    const auto bytes = encode_jpeg(pixels, 150, 130, 3, kind);
    Image image;
    decode_image(bytes, "x.jpg", image);
    for (uint64_t key = 0; key < 40; ++key) {
      const Transform transform{.steps = {step, HorizontalFlip{}}, .normalize = kToUnit};
      ASSERT_EQ(from_file(bytes, step, key), to_tensor(image, transform, key).to_vector<float>())
          << kind.across << " x " << kind.down << ", key " << key;
    }
  }
}

TEST(RandomResizedCrop, ScaledDecodeIsCloseAndRepeatsItself) {
  std::vector<uint8_t> pixels;  // smooth enough for two filters to agree
  for (int i = 0; i < 400 * 300; ++i)
    for (int c = 0; c < 3; ++c)
      pixels.push_back(
          static_cast<uint8_t>(128 + 60 * std::sin(i % 400 * 0.05 + c) * std::cos(i / 400 * 0.04)));
  const auto bytes = encode_jpeg(pixels, 400, 300, 3);
  int different = 0;
  for (uint64_t key = 0; key < 40; ++key) {
    const auto scaled = from_file(bytes, {.height = 20}, key);
    EXPECT_EQ(from_file(bytes, {.height = 20}, key), scaled);
    const auto whole = from_file(bytes, {.height = 20, .scaled_decode = false}, key);
    double sum = 0;
    for (size_t i = 0; i < scaled.size(); ++i) sum += std::abs(scaled[i] - whole[i]);
    EXPECT_LT(sum / static_cast<double>(scaled.size()), 0.012) << key;
    different += scaled != whole;
  }
  EXPECT_GT(different, 20);
}

TEST(RandomResizedCrop, EveryTruncationIsAnError) {
  const auto bytes = jpeg(64, 64, 6);
  for (size_t keep = 2; keep + 2 < bytes.size(); keep += 1 + keep / 20) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(keep));
    for (uint64_t key = 0; key < 4; ++key) {
      const auto text = message_of<FileError>([&] { from_file(cut, {.height = 8}, key); });
      EXPECT_EQ(text.rfind("x.jpg: ", 0), 0u) << text;
    }
  }
}

TEST(Transform, AShapeThatIsNotKnownStaysSo) {
  const TransformPlan mirrored({.steps = {HorizontalFlip{}}});
  EXPECT_EQ(mirrored.output_shape({}), ImageShape{});
  EXPECT_EQ(mirrored.output_shape({3, 4, 5}), (ImageShape{3, 4, 5}));
  const TransformPlan resized({.steps = {Resize{.height = 8}, HorizontalFlip{}}});
  EXPECT_EQ(resized.output_shape({}), ImageShape{});
  const TransformPlan cropped({.steps = {Resize{.height = 8}, CenterCrop{.height = 8}}});
  EXPECT_EQ(cropped.output_shape({}), (ImageShape{3, 8, 8}));
}

TEST(Transform, BadOptionsSayWhatIsWrong) {
  const Image image = picture(8, 8, 1);
  const auto text = [&](Transform t) {
    return message_of<ValueError>([&] { to_tensor(image, t); });
  };
  EXPECT_EQ(text({.steps = {Resize{}}}).rfind("[Resize] height 0", 0), 0u);
  EXPECT_EQ(text({.steps = {CenterCrop{.height = -1}}}).rfind("[CenterCrop]", 0), 0u);
  EXPECT_EQ(
      text({.steps = {RandomCrop{.height = 4, .padding = -1}}}).rfind("[RandomCrop] padding -1", 0),
      0u);
  const auto part = [](RandomResizedCrop crop) { return Transform{.steps = {crop}}; };
  EXPECT_EQ(text(part({})).rfind("[RandomResizedCrop] height 0", 0), 0u);
  EXPECT_EQ(text(part({.height = 4, .scale = {0, 1}})).rfind("[RandomResizedCrop] scale 0", 0), 0u);
  EXPECT_EQ(text(part({.height = 4, .scale = {0.5, 1.5}})).find("scale 0.5 to 1.5"), 20u);
  EXPECT_EQ(text(part({.height = 4, .ratio = {2, 1}})).find("ratio 2 to 1"), 20u);
  EXPECT_EQ(text({.steps = {HorizontalFlip{.p = 2}}}).rfind("[HorizontalFlip] p 2", 0), 0u);
  EXPECT_EQ(text({.normalize = {.mean = {0, 0}, .std = {1}}}).rfind("[Normalize] 2 means", 0), 0u);
  EXPECT_EQ(text({.normalize = {.std = {1, 0, 1}}}).rfind("[Normalize]", 0), 0u);
  EXPECT_THROW(to_tensor(image, {.steps = {RandomCrop{.height = 9}}}), ShapeError);
}

}  // namespace
}  // namespace brim::data
