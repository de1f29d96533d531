// Conversion to CIFAR-10 binary: what comes out is what went in, and nothing half-written stays.
#include <brim/data/convert.h>
#include <brim/data/source.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "data/scratch.h"
#include "data/tar_writer.h"

namespace brim::data {
namespace {

using namespace tests;

using Pictures = std::map<std::vector<uint8_t>, std::string>;  // pixels -> class

Pictures pictures_of(const Source& source) {
  Pictures result;
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    source.read(i, image);
    result[image.pixels] = source.classes()[static_cast<size_t>(source.label(i))];
  }
  return result;
}

size_t files_in(const std::string& path) {
  if (!fs::exists(path)) return 0;
  return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

void fill(TarWriter& tar, int count, int side = 32) {
  for (int i = 0; i < count; ++i) {
    const std::string label = i % 3 == 0 ? "dog" : i % 3 == 1 ? "ant" : "cow";
    tar.file("train/" + label + "/" + std::to_string(i) + ".png",
             encode_png(gradient(side, side, 3, i), side, side, 3));
  }
  tar.file("test/dog/x.png", encode_png(gradient(32, 32, 3, 1000), 32, 32, 3));
}

TEST(Convert, ArchiveRoundTrip) {
  const TemporaryFolder folder;
  {
    TarWriter tar(folder / "set.tar.gz", "gzip");
    fill(tar, 120);
  }
  int calls = 0;
  const ConvertResult result = convert_to_cifar10(
      folder / "set.tar.gz", folder / "out",
      {.workers = 2,
       .progress = [&](const ConvertProgress& p) { return ++calls, p.fraction <= 1; }});
  EXPECT_EQ(result.train, 120);
  EXPECT_EQ(result.test, 1);
  EXPECT_EQ(result.classes, (std::vector<std::string>{"ant", "cow", "dog"}));
  EXPECT_EQ(result.files.size(), 3u);
  EXPECT_EQ(files_in(folder / "out"), 3u);
  EXPECT_GT(calls, 1);
  for (const Split split : {Split::train, Split::test}) {
    const auto before = Source::open(folder / "set.tar.gz", split),
               after = Source::open(folder / "out", split);
    EXPECT_EQ(before->size(), after->size());
    EXPECT_EQ(pictures_of(*before), pictures_of(*after));
  }
  // Not sorted by class, and the same bytes for any number of workers.
  const auto train = Source::open(folder / "out", Split::train);
  int changes = 0;
  for (int64_t i = 1; i < train->size(); ++i) changes += train->label(i) != train->label(i - 1);
  EXPECT_GT(changes, 40);
  convert_to_cifar10(folder / "set.tar.gz", folder / "again", {.workers = 1});
  convert_to_cifar10(folder / "set.tar.gz", folder / "third", {.workers = 0});
  for (const char* other : {"again", "third"})
    EXPECT_EQ(read_bytes(folder / "out/data_batch_1.bin"),
              read_bytes(folder / (other + std::string("/data_batch_1.bin"))));
}

TEST(Convert, SourceRoundTrip) {
  const TemporaryFolder folder;
  const auto result = convert_to_cifar10("shapes10", folder / "out");
  EXPECT_EQ(result.train, 10000);
  EXPECT_EQ(result.test, 2000);
  const auto before = Source::open("shapes10", Split::test),
             after = Source::open(folder / "out", Split::test);
  EXPECT_EQ(before->classes(), after->classes());
  EXPECT_EQ(pictures_of(*before), pictures_of(*after));
}

TEST(Convert, BadInputLeavesNothing) {
  const TemporaryFolder folder;
  {
    TarWriter tar(folder / "big.tar");
    fill(tar, 3, 40);
  }
  std::string text =
      message_of<FileError>([&] { convert_to_cifar10(folder / "big.tar", folder / "out"); });
  EXPECT_NE(text.find("big.tar: train/dog/0.png: is 40 x 40"), std::string::npos) << text;
  EXPECT_NE(text.find("ConvertOptions::side=32"), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(folder / "out"));
  EXPECT_THROW(convert_to_cifar10(folder / "big.tar", folder / "new/and/deep/"), FileError);
  EXPECT_FALSE(fs::exists(folder / "new"));
  EXPECT_EQ(convert_to_cifar10(folder / "big.tar", folder / "out", {.side = 32}).train, 3);

  // A folder with results is left as it is, unless told otherwise.
  const auto kept = read_bytes(folder / "out/data_batch_1.bin");
  text = message_of<FileError>([&] { convert_to_cifar10("shapes10", folder / "out"); });
  EXPECT_NE(text.find("data_batch_1.bin: exists already"), std::string::npos) << text;
  EXPECT_NE(text.find("ConvertOptions::overwrite"), std::string::npos) << text;
  auto bytes = read_bytes(folder / "big.tar");
  bytes.resize(bytes.size() / 2);
  write_bytes(folder / "cut.tar", bytes);
  EXPECT_THROW(
      convert_to_cifar10(folder / "cut.tar", folder / "out", {.side = 32, .overwrite = true}),
      FileError);
  EXPECT_EQ(read_bytes(folder / "out/data_batch_1.bin"), kept);
  EXPECT_EQ(files_in(folder / "out"), 3u);
  EXPECT_THROW(convert_to_cifar10("shapes10", folder / "stop",
                                  {.progress = [](const auto&) { return false; }}),
               Error);
  EXPECT_FALSE(fs::exists(folder / "stop"));
  write_bytes(folder / "file", {1});
  EXPECT_THROW(convert_to_cifar10("shapes10", folder / "file/out"), FileError);
  EXPECT_THROW(convert_to_cifar10("shapes10", folder / "x", {.side = 16}), ValueError);
}

TEST(Convert, DamagedTestSplitIsNotTakenForAMissingOne) {
  const TemporaryFolder folder;
  write_bytes(folder / "in/data_batch_1.bin", cifar_records({1, 2}));
  EXPECT_EQ(convert_to_cifar10(folder / "in", folder / "out").test, 0);
  write_bytes(folder / "in/test_batch.bin", {1, 2, 3});
  EXPECT_THROW(convert_to_cifar10(folder / "in", folder / "out2"), FileError);
}

}  // namespace
}  // namespace brim::data
