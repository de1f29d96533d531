// Tar shards with WebDataset's naming.
#include <brim/data/convert.h>
#include <brim/data/source.h>
#include <brim/data/verify.h>
#include <gtest/gtest.h>

#include "data/scratch.h"
#include "data/source/shards.h"
#include "data/tar_writer.h"

namespace brim::data {
namespace {

using namespace tests;

std::vector<uint8_t> text(const std::string& t) { return {t.begin(), t.end()}; }

TEST(Shards, NamesOfARange) {
  EXPECT_EQ(
      shard_names("a/x-{0008..0011}.tar"),
      (std::vector<std::string>{"a/x-0008.tar", "a/x-0009.tar", "a/x-0010.tar", "a/x-0011.tar"}));
  EXPECT_EQ(shard_names("{9..10}").back(), "10");
  EXPECT_FALSE(is_shard_pattern("x{1,2}.tar"));
  EXPECT_FALSE(is_shard_pattern("}..{"));
  EXPECT_FALSE(is_shard_pattern("../x{1}.tar"));
  for (const char* bad : {"{..}", "{1..}", "{2..1}", "{-1..2}", "{a..b}", "{0..9}{0..9}",
                          "{0..99999999999999999999}", "{0..100000}", "{ 1..2}"}) {
    EXPECT_TRUE(is_shard_pattern(bad)) << bad;
    EXPECT_TRUE(has(message_of<FileError>([&] { shard_names(bad); }), "not a range")) << bad;
  }
}

class ShardFilters : public ::testing::TestWithParam<const char*> {};

TEST_P(ShardFilters, SamplesAreGroupedByName) {
  const TemporaryFolder folder;
  {
    TarWriter tar(folder / "t-00.tar", GetParam());
    tar.file("./b/7.cls", text(" 2\r\n"));
    tar.file("./b/7.json", text("{}"));
    tar.file("./b/7.jpg", jpeg(8, 8, 7));
    tar.file("./b/7.seg.png", text("x"));
    tar.file("./a.b/1.jpeg", jpeg(8, 9, 1));
    tar.file("./a.b/1.cls", text("0"));
  }
  {
    TarWriter tar(folder / "t-01.tar", GetParam());
    tar.file("7.png", encode_png(gradient(4, 4, 3, 1), 4, 4, 3));
    tar.file("7.cls", text("4"));
  }
  const std::string pattern = folder / "t-{00..01}.tar";
  double last = 0;
  const auto source = Source::open(pattern, Split::train, [&](double f) {
    EXPECT_GE(f, last);
    last = f;
    return true;
  });
  EXPECT_EQ(last, 1);
  ASSERT_EQ(source->size(), 3);
  EXPECT_EQ(source->classes(), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(source->label(0), 2);
  EXPECT_EQ(source->label(1), 0);
  EXPECT_EQ(source->label(2), 4);
  EXPECT_EQ(source->describe(1), folder / "t-00.tar: a.b/1.jpeg");
  Image image;
  source->read(1, image);
  EXPECT_EQ(image.shape(), (ImageShape{3, 9, 8}));
  source->read(2, image);
  EXPECT_EQ(image.pixels, gradient(4, 4, 3, 1));
  EXPECT_EQ(Source::open(pattern, Split::all)->size(), 3);
  EXPECT_THROW(Source::open(pattern, Split::test), NoSuchSplit);
  EXPECT_EQ(convert_to_cifar10(pattern, folder / "out", {.side = 32}).train, 3);
  EXPECT_EQ(verify(pattern).images, 3);
}

INSTANTIATE_TEST_SUITE_P(Filters, ShardFilters, ::testing::Values("", "gzip", "xz", "zstd"));

TEST(Shards, BadShards) {
  const TemporaryFolder folder;
  const std::string pattern = folder / "t-{0..1}.tar";
  const auto error = [&](const std::vector<std::pair<std::string, std::vector<uint8_t>>>& files) {
    fs::remove(folder / "t-1.tar");
    {
      TarWriter tar(folder / "t-1.tar");
      for (const auto& [name, bytes] : files) tar.file(name, bytes);
    }
    return message_of<FileError>([&] { Source::open(pattern, Split::train); });
  };
  {
    TarWriter tar(folder / "t-0.tar");
    tar.file("0.jpg", jpeg(8, 8, 1));
    tar.file("0.cls", text("0"));
  }
  EXPECT_TRUE(has(message_of<FileError>([&] { Source::open(pattern, Split::train); }),
                  "t-1.tar: cannot open"));
  const auto picture = jpeg(8, 8, 1);
  EXPECT_TRUE(has(error({{"a.jpg", picture}}), "t-1.tar: a.jpg has no label a.cls"));
  EXPECT_TRUE(has(error({{"a.jpg", picture}, {"a.cls", text("1")}, {"b.cls", text("1")}}),
                  "b.cls has no picture"));
  EXPECT_TRUE(has(error({{"a.txt", picture}}), "no pictures"));
  EXPECT_TRUE(has(error({{"a.jpg", picture}, {"a.png", picture}}), "has two pictures"));
  EXPECT_TRUE(has(error({{"a.cls", text("1")}, {"a.cls", text("1")}}), "has two labels"));
  for (const char* label : {"", " ", "-1", "cat", "1 2", "1.5", "100000", "99999999999999999999"}) {
    EXPECT_TRUE(has(error({{"a.jpg", picture}, {"a.cls", text(label)}}),
                    "t-1.tar: a.cls: holds no class number"))
        << label;
  }
  EXPECT_TRUE(has(error({{"../a.jpg", picture}}), "points outside"));
}

}  // namespace
}  // namespace brim::data
