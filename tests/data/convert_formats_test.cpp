// Conversion between the formats: what comes out is read back and compared.
#include <brim/core/error.h>
#include <brim/data/convert.h>
#include <brim/data/source.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "data/convert/output_file.h"
#include "data/convert/sink.h"
#include "data/scratch.h"

namespace brim::data {
namespace {

using namespace tests;

// What a split holds, whatever the order: class name and pixels of each sample.
using Contents = std::vector<std::pair<std::string, std::vector<uint8_t>>>;

Contents contents_of(const std::string& where, Split split) {
  const auto source = Source::open(where, split);
  Contents contents;
  Image image;
  for (int64_t i = 0; i < source->size(); ++i) {
    source->read(i, image);
    contents.emplace_back(source->classes()[static_cast<size_t>(source->label(i))], image.pixels);
  }
  std::sort(contents.begin(), contents.end());
  return contents;
}

class ConvertFormats : public ::testing::Test {
 protected:
  // Classes "0" and "1", so that formats without names keep them; JPEG, and grey PNG.
  ConvertFormats() {
    for (int i = 0; i < 7; ++i) {
      const std::string split = i < 5 ? "train/" : "test/", label = std::to_string(i % 2);
      const std::string name = split + label + "/" + std::to_string(i);
      write_bytes(folder / ("rgb/" + name + ".jpg"), jpeg(32, 32, i));
      write_bytes(folder / ("grey/" + name + ".png"), encode_png(gradient(9, 7, 1, i), 9, 7, 1));
    }
  }
  std::string where(const std::string& out, DataFormat format) const {
    return format == DataFormat::shards ? out + "/train-{000000..000000}.tar" : out;
  }
  TemporaryFolder folder;
};

TEST_F(ConvertFormats, EveryFormatKeepsEveryPixel) {
  for (const DataFormat format : {DataFormat::cifar10, DataFormat::folder, DataFormat::tar,
                                  DataFormat::shards, DataFormat::safetensors}) {
    const std::string out = folder / (std::string("out-") + to_string(format));
    for (const int workers : {0, 2}) {
      const std::string to = out + std::to_string(workers);
      const ConvertResult result = convert(folder / "rgb", to, format, {.workers = workers});
      EXPECT_EQ(result.train, 5) << to;
      EXPECT_EQ(result.test, 2);
      EXPECT_FALSE(result.files.empty());
      for (const std::string& file : result.files) EXPECT_TRUE(fs::is_regular_file(file)) << file;
      EXPECT_EQ(contents_of(where(to, format), Split::train),
                contents_of(folder / "rgb", Split::train));
      const bool shards = format == DataFormat::shards;
      EXPECT_EQ(contents_of(shards ? to + "/test-{000000..000000}.tar" : to,
                            shards ? Split::all : Split::test),
                contents_of(folder / "rgb", Split::test));
    }
    if (!fs::is_regular_file(out + "0")) continue;
    // The same for any number of workers.
    EXPECT_EQ(read_bytes(out + "0"), read_bytes(out + "2"));
  }
}

TEST_F(ConvertFormats, GreyPicturesBecomeIdxAndBack) {
  const std::string idx = folder / "idx", back = folder / "back.tar";
  EXPECT_EQ(convert(folder / "grey", idx, DataFormat::idx).files.size(), 4u);
  convert(idx, back, DataFormat::tar);
  for (const Split split : {Split::train, Split::test}) {
    EXPECT_EQ(contents_of(idx, split), contents_of(folder / "grey", split));
    EXPECT_EQ(contents_of(back, split), contents_of(folder / "grey", split));
  }
  const auto text =
      message_of<FileError>([&] { convert(folder / "rgb", folder / "x", DataFormat::idx); });
  EXPECT_NE(text.find("is in colour"), std::string::npos) << text;
  EXPECT_FALSE(fs::exists(folder / "x"));
}

TEST_F(ConvertFormats, FilesAreTakenOverUnlessResized) {
  convert(folder / "rgb", folder / "same", DataFormat::folder);
  for (const auto& entry : fs::recursive_directory_iterator(folder / "same")) {
    if (entry.is_regular_file()) {
      EXPECT_EQ(entry.path().extension(), ".jpg");
    }
  }
  convert(folder / "rgb", folder / "small", DataFormat::folder, {.side = 8});
  EXPECT_EQ(contents_of(folder / "small", Split::train)[0].second.size(), 8u * 8 * 3);
}

TEST_F(ConvertFormats, WithoutATestSplitThereIsNone) {
  const std::string input = folder / "rgb/train";
  for (const DataFormat format : {DataFormat::folder, DataFormat::tar, DataFormat::safetensors}) {
    const std::string out = folder / (std::string("t-") + to_string(format));
    EXPECT_EQ(convert(input, out, format).test, 0);
    EXPECT_EQ(contents_of(out, Split::train), contents_of(input, Split::train));
    EXPECT_THROW(Source::open(out, Split::test), NoSuchSplit);
  }
}

TEST_F(ConvertFormats, NothingIsLeftOfAFailure) {
  const auto jpeg_bytes = jpeg(32, 32, 9);
  write_bytes(folder / "rgb/train/0/bad.jpg", {jpeg_bytes.begin(), jpeg_bytes.end() - 50});
  for (const DataFormat format :
       {DataFormat::folder, DataFormat::tar, DataFormat::shards, DataFormat::safetensors}) {
    const auto text =
        message_of<FileError>([&] { convert(folder / "rgb", folder / "new/out", format); });
    EXPECT_NE(text.find("bad.jpg: damaged"), std::string::npos) << text;
    EXPECT_FALSE(fs::exists(folder / "new"));
  }
}

TEST_F(ConvertFormats, WhatAKilledCommandLeftIsRemoved) {
  for (const DataFormat format :
       {DataFormat::cifar10, DataFormat::folder, DataFormat::shards, DataFormat::tar}) {
    const std::string name = std::string("k-") + to_string(format), out = folder / name;
    const std::string hidden =
        format == DataFormat::cifar10 ? out + "/.cifar10" : folder / ("." + name);
    const std::string dead = hidden + ".brim-4194304-1.tmp";
    const std::string running = hidden + ".brim-4194304-2.tmp";
    write_bytes(dead + "/out/train/dog/old.jpg", jpeg(32, 32, 9));
    fs::create_directories(running);
    const int lock = ::open(running.c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_EQ(::flock(lock, LOCK_EX), 0);
    convert(folder / "rgb", out, format);
    EXPECT_FALSE(fs::exists(dead)) << dead;
    EXPECT_TRUE(fs::exists(running)) << running;
    EXPECT_EQ(contents_of(where(out, format), Split::train),
              contents_of(folder / "rgb", Split::train));
    ::close(lock);
  }
}

TEST_F(ConvertFormats, WritesThroughNoLink) {
  write_bytes(folder / "victim", {1, 2, 3});
  fs::create_symlink(folder / "victim", folder / "link");
  EXPECT_THROW(OutputFile{folder / "link"}, FileError);
  EXPECT_THROW(make_tar_sink(folder / "link", {}), FileError);
  EXPECT_EQ(read_bytes(folder / "victim"), (std::vector<uint8_t>{1, 2, 3}));
  // Under the names of the set, links are replaced.
  for (const char* name : {"data_batch_1.bin", "test_batch.bin", "batches.meta.txt"}) {
    fs::create_directories(folder / "out");
    fs::create_symlink(folder / "victim", folder / (std::string("out/") + name));
  }
  convert(folder / "rgb", folder / "out", DataFormat::cifar10, {.overwrite = true});
  EXPECT_EQ(read_bytes(folder / "victim"), (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(contents_of(folder / "out", Split::train), contents_of(folder / "rgb", Split::train));
}

TEST_F(ConvertFormats, WhatDoesNotFitSaysSo) {
  const auto error_of = [&](const std::string& input, DataFormat format) {
    return message_of<FileError>([&] { convert(input, folder / "x", format); });
  };
  write_bytes(folder / "mixed/a/1.jpg", jpeg(32, 32, 1));
  write_bytes(folder / "mixed/a/2.jpg", jpeg(30, 32, 1));
  EXPECT_NE(
      error_of(folder / "mixed", DataFormat::safetensors).find("convert with ConvertOptions::side"),
      std::string::npos);
  write_bytes(folder / "there", {1});
  EXPECT_NE(message_of<FileError>([&] {
              convert(folder / "rgb", folder / "there", DataFormat::tar);
            }).find("or use ConvertOptions::overwrite"),
            std::string::npos);
  convert(folder / "rgb", folder / "there", DataFormat::tar, {.overwrite = true});
  EXPECT_EQ(Source::open(folder / "there", Split::train)->size(), 5);
  EXPECT_EQ(message_of<FileError>([&] {
              convert(folder / "rgb", folder / "grey", DataFormat::tar, {.overwrite = true});
            }),
            (folder / "grey") + ": exists already and is not a file; choose another name");
  fs::create_symlink("/nonexistent/x", folder / "nowhere");
  EXPECT_NE(message_of<FileError>([&] {
              convert(folder / "rgb", folder / "nowhere", DataFormat::tar);
            }).find("exists already"),
            std::string::npos);
  fs::create_directory(folder / "half");
  fs::create_symlink("/nonexistent/x", folder / "half/test_batch.bin");
  EXPECT_NE(message_of<FileError>([&] {
              convert(folder / "rgb", folder / "half", DataFormat::cifar10);
            }).find("test_batch.bin: exists already"),
            std::string::npos);
  EXPECT_THROW(convert(folder / "rgb", folder / "rgb", DataFormat::folder, {.overwrite = true}),
               FileError);
  EXPECT_THROW(convert(folder / "rgb", folder / "x", DataFormat::tar, {.side = -1}), ValueError);
  EXPECT_EQ(message_of<ValueError>([] { parse_data_format("shard"); }),
            "[data] unknown format 'shard'; did you mean 'shards'?");
  for (const char* name : {"cifar10", "idx", "folder", "tar", "shards", "safetensors"})
    EXPECT_EQ(to_string(parse_data_format(name)), std::string(name));
}

TEST_F(ConvertFormats, HostileClassNamesMakeNoPaths) {
  // Names in the metadata of a safetensors file are anything.
  convert(folder / "rgb", folder / "a.safetensors", DataFormat::safetensors);
  auto bytes = read_bytes(folder / "a.safetensors");
  const std::string good = "0\\n1";
  const auto at = std::search(bytes.begin(), bytes.end(), good.begin(), good.end());
  ASSERT_NE(at, bytes.end());
  *at = '/';
  write_bytes(folder / "b.safetensors", bytes);
  auto text = message_of<FileError>(
      [&] { convert(folder / "b.safetensors", folder / "x", DataFormat::folder); });
  EXPECT_NE(text.find("cannot be the name of a folder"), std::string::npos) << text;
  const std::string empty = "\\n\\n";
  std::copy(empty.begin(), empty.end(), at);
  write_bytes(folder / "c.safetensors", bytes);
  text = message_of<FileError>(
      [&] { convert(folder / "c.safetensors", folder / "x", DataFormat::safetensors); });
  EXPECT_NE(text.find("empty name"), std::string::npos) << text;
}

TEST_F(ConvertFormats, ClassesNamedLikeSplits) {
  for (const auto& [first, second] : {std::pair{"train", "test"}, {"val", "cat"}}) {
    const std::string input = folder / ("rgb-" + std::string(first));
    for (int i = 0; i < 4; ++i)
      write_bytes(input + "/train/" + (i % 2 ? first : second) + "/" + std::to_string(i) + ".jpg",
                  jpeg(32, 32, i));
    for (const DataFormat format : {DataFormat::folder, DataFormat::tar}) {
      const std::string out = input + to_string(format);
      EXPECT_EQ(convert(input, out, format).test, 0);
      EXPECT_EQ(contents_of(out, Split::train), contents_of(input, Split::train));
      EXPECT_THROW(Source::open(out, Split::test), NoSuchSplit);
    }
  }
}

TEST_F(ConvertFormats, NamesThatCifar10WouldMergeAreRefused) {
  for (const char* name : {"a", "a "})
    write_bytes(folder / ("spaces/" + std::string(name) + "/1.jpg"), jpeg(32, 32, 1));
  const auto text =
      message_of<FileError>([&] { convert(folder / "spaces", folder / "x", DataFormat::cifar10); });
  EXPECT_NE(text.find("the class 'a ' holds a line break or ends in a space"), std::string::npos)
      << text;
  EXPECT_FALSE(fs::exists(folder / "x"));
}

TEST_F(ConvertFormats, Stops) {
  const auto stop = [](const ConvertProgress& p) { return p.images == 0; };
  EXPECT_THROW(convert(folder / "rgb", folder / "x.tar", DataFormat::tar, {.progress = stop}),
               Error);
  EXPECT_FALSE(fs::exists(folder / "x.tar"));
}

}  // namespace
}  // namespace brim::data
