// MNIST's IDX files: what they hold, how they are found, and files that are damaged or hostile.
#include <brim/data/convert.h>
#include <brim/data/loader.h>
#include <brim/data/source.h>
#include <gtest/gtest.h>

#include "data/idx_files.h"
#include "data/scratch.h"
#include "data/tar_writer.h"

namespace brim::data {
namespace {

using namespace tests;
using namespace brim::tests;

/// Three training pictures and two test pictures.
class Idx : public ::testing::Test {
 protected:
  void SetUp() override {
    write_bytes(folder / "train-images-idx3-ubyte", idx_images(3));
    write_bytes(folder / "train-labels-idx1-ubyte", idx_labels({7, 0, 9}));
    write_bytes(folder / "t10k-images-idx3-ubyte", idx_images(2));
    write_bytes(folder / "t10k-labels-idx1-ubyte", idx_labels({1, 2}));
  }
  template <class E = FileError>
  std::string open_error(Split split = Split::train) const {
    return message_of<E>([&] { Source::open(folder.path(), split); });
  }
  /// Puts `bytes` in the place of a training file and returns the error.
  std::string with_images(const std::vector<uint8_t>& bytes) const {
    write_bytes(folder / "train-images-idx3-ubyte", bytes);
    return open_error();
  }
  std::string with_labels(const std::vector<uint8_t>& bytes) const {
    write_bytes(folder / "train-labels-idx1-ubyte", bytes);
    return open_error();
  }
  /// The same through gzip.
  std::string with_packed_images(const std::vector<uint8_t>& bytes) const {
    fs::remove(folder / "train-images-idx3-ubyte");
    write_filtered(folder / "train-images-idx3-ubyte.gz", "gzip", bytes);
    return open_error();
  }
  TemporaryFolder folder;
};

TEST_F(Idx, SplitsLabelsAndGreyAsRgb) {
  const auto train = Source::open(folder.path(), Split::train);
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->image_shape(), (ImageShape{3, 28, 28}));
  EXPECT_EQ(train->classes().size(), 10U);
  EXPECT_EQ(train->classes()[9], "9");
  EXPECT_EQ(train->label(0), 7);
  EXPECT_EQ(train->label(2), 9);
  EXPECT_EQ(train->describe(2), folder / "train-images-idx3-ubyte image 2");
  Image image;
  train->read(1, image);
  EXPECT_EQ(image.shape(), (ImageShape{3, 28, 28}));
  for (size_t p = 0; p < 784; ++p) {
    for (size_t c = 0; c < 3; ++c) ASSERT_EQ(image.pixels[3 * p + c], (784 + p) * 7 % 251) << p;
  }
  EXPECT_EQ(Source::open(folder.path(), Split::test)->label(1), 2);
  const auto all = Source::open(folder.path(), Split::all);
  ASSERT_EQ(all->size(), 5);
  EXPECT_EQ(all->label(2), 9);
  EXPECT_EQ(all->label(3), 1);
  EXPECT_EQ(all->describe(4), folder / "t10k-images-idx3-ubyte image 1");
}

TEST_F(Idx, EverySpellingPlainAndPacked) {
  const TemporaryFolder other;
  const auto same = [&](const std::string& where) {
    const auto a = Source::open(folder.path(), Split::all), b = Source::open(where, Split::all);
    ASSERT_EQ(a->size(), b->size());
    Image x, y;
    for (int64_t i = 0; i < a->size(); ++i) {
      a->read(i, x);
      b->read(i, y);
      EXPECT_EQ(x.pixels, y.pixels);
      EXPECT_EQ(a->label(i), b->label(i));
    }
  };
  for (const std::string name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                 "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    std::string dotted = name;
    dotted.replace(dotted.find("-idx"), 1, ".");
    write_bytes(other / ("dots/" + dotted), read_bytes(folder / name));
    // Kaggle's copy has folders of the other spelling beside the files.
    fs::create_directories(other / ("dots/" + name));
    fs::create_directories(other / "packed");
    write_filtered(other / ("packed/" + name + ".gz"), "gzip", read_bytes(folder / name));
    // A browser may have unpacked a file without renaming it.
    write_bytes(other / ("named/raw/" + name + ".gz"), read_bytes(folder / name));
  }
  same(other / "dots");
  same(other / "packed");
  same(other / "named");
  double last = 0;
  Source::open(other / "packed", Split::train, [&](double f) { return last = f, true; });
  EXPECT_EQ(last, 1);
  EXPECT_THROW(Source::open(other / "packed", Split::train, [](double) { return false; }), Error);
}

TEST_F(Idx, ClassesComeFromTheLabelsOfBothSplits) {
  write_bytes(folder / "t10k-labels-idx1-ubyte", idx_labels({10, 11}));
  const auto train = Source::open(folder.path(), Split::train);
  EXPECT_EQ(train->classes().size(), 12U);
  EXPECT_EQ(train->classes()[11], "11");
  write_bytes(folder / "t10k-labels-idx1-ubyte", idx_labels({10, 12}));
  EXPECT_TRUE(has(open_error(), "t10k-labels-idx1-ubyte: sample 1 has label 12, but none has 11"));
  EXPECT_TRUE(has(with_labels(idx_labels({1, 2, 255})),
                  "train-labels-idx1-ubyte: sample 2 has label 255, but none has 11"));
}

TEST_F(Idx, PicturesOfAnotherSize) {
  write_bytes(folder / "t10k-images-idx3-ubyte", idx_images(2, 5, 4));
  EXPECT_EQ(Source::open(folder.path(), Split::test)->image_shape(), (ImageShape{3, 5, 4}));
  const auto all = Source::open(folder.path(), Split::all);
  EXPECT_EQ(all->image_shape(), ImageShape{});
  Image image;
  all->read(4, image);
  EXPECT_EQ(image.shape(), (ImageShape{3, 5, 4}));
  EXPECT_EQ(image.pixels[3 * 19], 39 * 7 % 251);
}

TEST_F(Idx, MissingFiles) {
  fs::remove(folder / "t10k-labels-idx1-ubyte");
  EXPECT_TRUE(has(open_error(Split::test), "t10k-images-idx3-ubyte: has no t10k-labels file"));
  EXPECT_EQ(Source::open(folder.path(), Split::train)->size(), 3);
  fs::remove(folder / "t10k-images-idx3-ubyte");
  EXPECT_TRUE(has(open_error<NoSuchSplit>(Split::test), "no test split"));
  EXPECT_EQ(Source::open(folder.path(), Split::all)->size(), 3);
  fs::remove(folder / "train-images-idx3-ubyte");
  EXPECT_TRUE(has(open_error(), "train-labels-idx1-ubyte: has no train-images file"));
  EXPECT_TRUE(has(message_of<FileError>(
                      [&] { Source::open(folder / "train-labels-idx1-ubyte", Split::train); }),
                  "one of the four files of an MNIST data set; pass the folder"));
}

TEST_F(Idx, DamagedPlainFiles) {
  EXPECT_TRUE(has(with_images({}), "train-images-idx3-ubyte: 0 bytes"));
  EXPECT_TRUE(has(with_images({0, 0, 8, 3, 0, 0}), "6 bytes; the header"));
  EXPECT_TRUE(has(with_images(idx_labels(std::vector<uint8_t>(20))), "begins with 0x00000801"));
  EXPECT_TRUE(has(with_images(idx_file(0xd03, {1, 1, 1}, {1})), "begins with 0x00000d03"));
  auto bytes = idx_images(3);
  bytes.pop_back();
  EXPECT_TRUE(has(with_images(bytes), "take 2352 bytes, but 2351 follow"));
  bytes.resize(bytes.size() + 2);
  EXPECT_TRUE(has(with_images(bytes), "take 2352 bytes, but 2353 follow"));
  EXPECT_TRUE(has(with_images(idx_images(4)), "3 labels, but"));
  EXPECT_TRUE(has(with_images(idx_file(0x803, {0, 28, 28}, {})), "declares 0 pictures"));
  EXPECT_TRUE(has(with_images(idx_file(0x803, {3, 0, 28}, {})), "of 0 x 28"));
  write_bytes(folder / "train-images-idx3-ubyte", idx_images(3));
  EXPECT_TRUE(has(with_labels(idx_labels({})), "declares 0 labels"));
  EXPECT_TRUE(has(with_labels(idx_file(0x801, {4}, {1, 2, 3})), "but 3 follow"));
}

TEST_F(Idx, FalseDimensionsTakeNoMemory) {
  constexpr uint32_t kMax = 0xffffffff;
  EXPECT_TRUE(has(with_images(idx_file(0x803, {kMax, kMax, kMax}, {1})), "the limit is"));
  EXPECT_TRUE(has(with_images(idx_file(0x803, {kMax, 1 << 14, 1 << 13}, {1})), "but 1 follow"));
  EXPECT_TRUE(has(with_labels(idx_file(0x801, {kMax}, {1})), "but 1 follow"));
  write_bytes(folder / "train-labels-idx1-ubyte", idx_labels({7, 0, 9}));
  EXPECT_TRUE(has(with_packed_images(idx_file(0x803, {kMax, 1 << 14, 1 << 13}, {1})),
                  "bytes cannot hold them"));
}

TEST_F(Idx, DamagedPackedFiles) {
  auto bytes = idx_images(3);
  bytes.pop_back();
  EXPECT_TRUE(has(with_packed_images(bytes), "ends 1 bytes too early"));
  // A bomb: zeros without an end behind what the header declares.
  bytes.resize(size_t{8} << 20);
  EXPECT_TRUE(has(with_packed_images(bytes), "holds more bytes than its header declares"));
  EXPECT_TRUE(has(with_packed_images({0, 0, 8}), "too early"));

  const std::string path = folder / "train-images-idx3-ubyte.gz";
  write_filtered(path, "gzip", idx_images(3));
  EXPECT_EQ(Source::open(folder.path(), Split::train)->size(), 3);
  const std::vector<uint8_t> good = read_bytes(path);
  const auto with = [&](const std::vector<uint8_t>& packed) {
    write_bytes(path, packed);
    return open_error();
  };
  for (const size_t cut : {size_t{1}, size_t{8}, good.size() / 2, good.size() - 2})
    EXPECT_TRUE(has(with({good.begin(), good.end() - static_cast<ptrdiff_t>(cut)}), "truncated"))
        << cut;
  std::vector<uint8_t> bad = good;
  bad[bad.size() - 8] ^= 1;  // the checksum
  EXPECT_TRUE(has(with(bad), "damaged gzip file (incorrect data check)"));
  bad = good;
  bad.push_back(0);
  EXPECT_TRUE(has(with(bad), "1 bytes follow the end"));
  bad = good;
  bad[2] = 9;
  EXPECT_TRUE(has(with(bad), "damaged gzip file"));
  // Whatever byte is changed, the pictures are the right ones or it is an error.
  for (size_t at = 0; at < good.size(); at += 7) {
    bad = good;
    bad[at] ^= 0x20;
    write_bytes(path, bad);
    try {
      Image image;
      Source::open(folder.path(), Split::train)->read(2, image);
      EXPECT_EQ(image.pixels[0], 1568 * 7 % 251) << at;
    } catch (const FileError&) {
    }
  }
}

TEST_F(Idx, LoaderAndConversion) {
  const Loader loader(Source::open(folder.path(), Split::train), {.steps = {Resize{.height = 32}}},
                      {.batch = 3, .shuffle = false});
  Epoch epoch = loader.epoch(0);
  const Batch* batch = epoch.next();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->x.shape(), (Shape{3, 3, 32, 32}));

  EXPECT_TRUE(has(message_of<FileError>([&] { convert_to_cifar10(folder.path(), folder / "no"); }),
                  "28 x 28"));
  const auto result = convert_to_cifar10(folder.path(), folder / "out", {.side = 32});
  EXPECT_EQ(result.train, 3);
  EXPECT_EQ(result.test, 2);
  EXPECT_EQ(result.classes.size(), 10U);
  const auto converted = Source::open(folder / "out", Split::test);
  EXPECT_EQ(converted->classes()[3], "3");
  const ImageView view = converted->view(0);
  EXPECT_EQ(view.at(0, 9, 9), view.at(2, 9, 9));
}

}  // namespace
}  // namespace brim::data
