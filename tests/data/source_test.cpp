// Sources: layouts, labels, and data sets that are damaged or hostile.
#include <brim/data/source.h>
#include <gtest/gtest.h>

#include <set>

#include "data/keyed.h"
#include "data/scratch.h"
#include "data/tar_writer.h"

namespace brim::data {
namespace {

using namespace tests;
using ::testing::Test;

template <class E = FileError>
std::string open_error(const std::string& where, Split split = Split::train) {
  return message_of<E>([&] { Source::open(where, split); });
}

// --- shapes10

uint64_t hash_of(const Source& source, int64_t count) {
  uint64_t hash = 0;
  for (int64_t i = 0; i < count; ++i) {
    const ImageView view = source.view(i);
    for (int64_t k = 0; k < view.shape.bytes(); ++k) hash = mix64(hash * 31 + view.pixels[k]);
  }
  return hash;
}

TEST(Shapes10, IsTheSameForEver) {
  // Changing these numbers changes every accuracy that was ever measured on shapes10.
  EXPECT_EQ(hash_of(*Source::open("shapes10", Split::train), 500), 10628110969948444366u);
  EXPECT_EQ(hash_of(*Source::open("shapes10", Split::test), 500), 10919724189661671873u);
  EXPECT_EQ(hash_of(*Source::open("shapes10:7", Split::train), 100), 843800633480220468u);
}

TEST(Shapes10, IsBalancedAndComplete) {
  const auto train = Source::open("shapes10", Split::train),
             test = Source::open("shapes10", Split::test);
  const auto all = Source::open("shapes10", Split::all);
  EXPECT_EQ(train->size(), 10000);
  EXPECT_EQ(test->size(), 2000);
  EXPECT_EQ(all->size(), 12000);
  EXPECT_EQ(train->classes().size(), 10u);
  EXPECT_EQ(std::set<std::string>(train->classes().begin(), train->classes().end()).size(), 10u);
  std::vector<int> count(10);
  for (int64_t i = 0; i < test->size(); ++i) ++count[static_cast<size_t>(test->label(i))];
  EXPECT_EQ(count, std::vector<int>(10, 200));
  Image a, b;
  all->read(10003, a);
  test->read(3, b);
  EXPECT_EQ(a.pixels, b.pixels);
  EXPECT_EQ(all->describe(10003), "shapes10 test 3");
  const ImageView view = test->view(3);
  EXPECT_EQ(view.at(1, 4, 5), b.pixels[(4 * 32 + 5) * 3 + 1]);
}

// --- CIFAR-10

TEST(Cifar10, FolderWithSplits) {
  const TemporaryFolder folder;
  write_bytes(folder / "data_batch_2.bin", cifar_records({2, 3}));
  write_bytes(folder / "data_batch_10.bin", cifar_records({4}));
  write_bytes(folder / "data_batch_1.bin", cifar_records({0, 1, 9}));
  write_bytes(folder / "test_batch.bin", cifar_records({5}));
  const auto train = Source::open(folder.path(), Split::train);
  ASSERT_EQ(train->size(), 6);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 6; ++i) labels.push_back(train->label(i));
  EXPECT_EQ(labels,
            (std::vector<int64_t>{0, 1, 9, 2, 3, 4}));  // files in the order of their numbers
  EXPECT_EQ(train->classes()[0], "airplane");
  EXPECT_TRUE(has(train->describe(4), "data_batch_2.bin record 1")) << train->describe(4);
  Image image;
  train->read(1, image);
  EXPECT_EQ(image.pixels[0], 13);                     // red of the first pixel
  EXPECT_EQ(image.pixels[1], (1024 * 7 + 13) % 256);  // green
  EXPECT_EQ(train->view(1).at(2, 0, 1), image.pixels[5]);
  EXPECT_EQ(Source::open(folder.path(), Split::test)->label(0), 5);
  EXPECT_EQ(Source::open(folder.path(), Split::all)->size(), 7);
  EXPECT_EQ(Source::open(folder / "data_batch_1.bin", Split::train)->size(), 3);
}

TEST(Cifar10, OfficialFolderInside) {
  const TemporaryFolder folder;
  write_bytes(folder / "cifar-10-batches-bin/test_batch.bin", cifar_records({5}));
  EXPECT_EQ(Source::open(folder.path(), Split::test)->size(), 1);
  EXPECT_EQ(Source::open(folder.path(), Split::all)->size(), 1);
  EXPECT_TRUE(has(open_error<NoSuchSplit>(folder.path()), "no train split"));
}

TEST(Cifar10, BadFilesAreNamed) {
  const TemporaryFolder folder;
  auto bytes = cifar_records({0, 1, 2});
  bytes.resize(bytes.size() - 10);
  write_bytes(folder / "data_batch_1.bin", bytes);
  std::string text = open_error(folder.path());
  EXPECT_TRUE(has(text, "data_batch_1.bin: 9209 bytes") && has(text, "3073")) << text;
  write_bytes(folder / "data_batch_1.bin", cifar_records({0, 1, 10}));
  text = open_error(folder.path());
  EXPECT_TRUE(has(text, "data_batch_1.bin: record 2 has label 10; expected 0 to 9")) << text;
  write_bytes(folder / "data_batch_1.bin", {});
  EXPECT_TRUE(has(open_error(folder.path()), "data_batch_1.bin: 0 bytes"));
  EXPECT_TRUE(has(open_error<NoSuchSplit>(folder.path(), Split::test), "no test split"));
  write_bytes(folder / "lone.bin", cifar_records({1}));
  EXPECT_TRUE(has(open_error<NoSuchSplit>(folder / "lone.bin", Split::test), "no test split"));
}

TEST(Cifar10, ClassNamesComeFromTheMetaFile) {
  const TemporaryFolder folder;
  write_bytes(folder / "data_batch_1.bin", cifar_records({0, 2}));
  const std::string meta = "ant\r\nbee\n\ncow\n\n";
  write_bytes(folder / "batches.meta.txt", {meta.begin(), meta.end()});
  EXPECT_EQ(Source::open(folder.path(), Split::train)->classes(),
            (std::vector<std::string>{"ant", "bee", "cow"}));
  write_bytes(folder / "data_batch_1.bin", cifar_records({3}));
  EXPECT_TRUE(has(open_error(folder.path()), "label 3; expected 0 to 2"));
}

TEST(Cifar10, ClassNamesThatCannotBeReadAreAnError) {
  const TemporaryFolder folder;
  write_bytes(folder / "data_batch_1.bin", cifar_records({0, 2}));
  write_bytes(folder / "batches.meta.txt", {'\n'});
  EXPECT_TRUE(has(open_error(folder.path()), "batches.meta.txt: holds no class names"));
  fs::remove(folder / "batches.meta.txt");
  fs::create_directory(folder / "batches.meta.txt");
  EXPECT_TRUE(has(open_error(folder.path()), "batches.meta.txt: not a regular file"));
}

// --- image folder

TEST(ImageFolder, ClassesAreSortedAndSharedBySplits) {
  const TemporaryFolder folder;
  write_bytes(folder / "train/dog/1.jpg", jpeg(8, 8, 1));
  write_bytes(folder / "train/cat/deep/2.JPEG", jpeg(9, 8, 2));
  write_bytes(folder / "train/cat/1.png", encode_png(gradient(4, 4, 3, 1), 4, 4, 3));
  write_bytes(folder / "train/cat/notes.txt", {'x'});
  write_bytes(folder / "train/.hidden/1.jpg", jpeg(8, 8, 1));
  write_bytes(folder / "test/dog/1.jpg", jpeg(8, 8, 3));
  const auto train = Source::open(folder.path() + "/", Split::train);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(train->size(), 3);
  EXPECT_EQ(train->describe(0), folder / "train/cat/1.png");
  EXPECT_EQ(train->describe(1), folder / "train/cat/deep/2.JPEG");
  EXPECT_EQ(train->label(2), 1);
  EXPECT_FALSE(train->in_memory());
  EXPECT_FALSE(train->view(0));
  Image image;
  train->read(1, image);
  EXPECT_EQ(image.shape(), (ImageShape{3, 8, 9}));
  const auto test = Source::open(folder.path(), Split::test);
  EXPECT_EQ(test->label(0), 1);  // still "dog", though test/ has no cat
  EXPECT_EQ(Source::open(folder.path(), Split::all)->size(), 4);
}

TEST(ImageFolder, WithoutSplit) {
  const TemporaryFolder folder;
  write_bytes(folder / "cat/1.jpg", jpeg(8, 8, 1));
  write_bytes(folder / "train/1.jpg", jpeg(8, 8, 1));  // a class of railway pictures
  EXPECT_EQ(Source::open(folder.path(), Split::train)->classes(),
            (std::vector<std::string>{"cat", "train"}));
  EXPECT_TRUE(has(open_error<NoSuchSplit>(folder.path(), Split::test), "there is no test split"));
}

TEST(ImageFolder, BadFolders) {
  const TemporaryFolder folder;
  EXPECT_TRUE(has(open_error(folder / "none"), "no such file or folder; accepted are: shapes10"));
  fs::create_directories(folder / "empty");
  EXPECT_TRUE(has(open_error(folder / "empty"), "no pictures"));
  write_bytes(folder / "flat/1.jpg", jpeg(8, 8, 1));
  EXPECT_TRUE(has(open_error(folder / "flat"), "1.jpg lies in no class folder"));
  write_bytes(folder / "gap/cat/1.jpg", jpeg(8, 8, 1));
  fs::create_directories(folder / "gap/dog");
  EXPECT_TRUE(has(open_error(folder / "gap"), "gap/dog: holds no .jpg"));
  fs::remove(folder / "gap/dog");
  write_bytes(folder / "text.txt", {'h', 'i'});
  EXPECT_TRUE(has(open_error(folder / "text.txt"), "not a data set; accepted are"));
  fs::create_directory_symlink(folder / "gap/cat", folder / "gap/cat/loop");
  EXPECT_TRUE(has(open_error(folder / "gap"), "loop of links"));
  if (::geteuid() != 0) {
    fs::permissions(folder / "flat", fs::perms::none);
    EXPECT_TRUE(has(open_error(folder / "flat"), "cannot list"));
    fs::permissions(folder / "flat", fs::perms::owner_all);
  }
}

TEST(ImageFolder, DamagedPictureIsNamedWhenItIsRead) {
  const TemporaryFolder folder;
  auto bytes = jpeg(32, 32, 1);
  bytes.resize(bytes.size() / 2);
  write_bytes(folder / "cat/bad.jpg", bytes);
  const auto source = Source::open(folder.path(), Split::train);
  Image image;
  EXPECT_TRUE(has(message_of<FileError>([&] { source->read(0, image); }),
                  "cat/bad.jpg: damaged or truncated"));
  fs::remove(folder / "cat/bad.jpg");
  EXPECT_TRUE(
      has(message_of<FileError>([&] { source->read(0, image); }), "cat/bad.jpg: cannot open"));
}

// --- tar

class Tar : public Test, public ::testing::WithParamInterface<const char*> {};

TEST_P(Tar, EveryCompressionGivesTheSamePictures) {
  const TemporaryFolder folder;
  const std::string path = folder / "set.tar";
  {
    TarWriter tar(path, GetParam());
    tar.folder("./pets/");
    tar.folder("./pets/train/");
    for (int i = 0; i < 6; ++i) {
      tar.file(
          "./pets/train/" + std::string(i % 2 ? "cat" : "dog") + "/" + std::to_string(i) + ".jpg",
          jpeg(32, 32, i));
    }
    tar.file("./pets/README.txt", {'x'});
    tar.file("./pets/test/cat/._junk.jpg", {'x'});
    tar.file("./pets/test/cat/9.jpg", jpeg(32, 32, 9));
  }
  const auto train = Source::open(path, Split::train);
  ASSERT_EQ(train->size(), 6);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(train->describe(1), path + ": pets/train/cat/3.jpg");
  Image image, expected;
  for (int64_t i = 0; i < 6; ++i) {
    train->read(i, image);
    decode_image(jpeg(32, 32, static_cast<int>(i < 3 ? 2 * i + 1 : 2 * i - 6)), "", expected);
    EXPECT_EQ(image.pixels, expected.pixels);
    EXPECT_EQ(train->label(i), i < 3 ? 0 : 1);
  }
  EXPECT_EQ(Source::open(path, Split::test)->size(), 1);

  // Cut anywhere, it is an error, never a shorter data set.
  auto bytes = read_bytes(path);
  for (const double part : {0.3, 0.6}) {
    write_bytes(folder / "cut.tar",
                {bytes.begin(),
                 bytes.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(bytes.size()))});
    EXPECT_TRUE(has(open_error(folder / "cut.tar"), "truncated")) << part;
  }
}

TEST_P(Tar, CutBetweenTwoEntries) {
  const TemporaryFolder folder;
  {
    TarWriter tar(folder / "plain.tar");
    for (int i = 0; i < 3; ++i) tar.file("a/" + std::to_string(i) + ".jpg", jpeg(8, 8, i));
    tar.file("a/README", {1, 2, 3});
  }
  auto bytes = read_bytes(folder / "plain.tar");
  while (bytes.back() == 0) bytes.pop_back();
  const auto write = [&](size_t size) {
    bytes.resize(size);
    write_filtered(folder / "set.tar", GetParam(), bytes);
  };
  const size_t end = (bytes.size() + 511) / 512 * 512;
  write(end + 512);  // one block of zeros is enough
  EXPECT_EQ(Source::open(folder / "set.tar", Split::train)->size(), 3);
  for (const size_t size : {end, end - 1024}) {  // behind the last entry, and behind the picture
    write(size);
    EXPECT_TRUE(has(open_error(folder / "set.tar"), "set.tar: truncated archive")) << size;
  }
}

TEST_P(Tar, OpeningTellsHowFarItIsAndCanBeStopped) {
  const TemporaryFolder folder;
  {
    TarWriter tar(folder / "set.tar", GetParam());
    for (int i = 0; i < 5; ++i) tar.file("a/" + std::to_string(i) + ".jpg", jpeg(8, 8, i));
  }
  int calls = 0;
  EXPECT_THROW(Source::open(folder / "set.tar", Split::train, [&](double) { return ++calls < 2; }),
               Error);
  EXPECT_EQ(calls, 2);
  double last = 0;
  const auto rises = [&](double fraction) {
    EXPECT_GE(fraction, last);
    last = fraction;
    return true;
  };
  EXPECT_EQ(Source::open(folder / "set.tar", Split::train, rises)->size(), 5);
  EXPECT_EQ(last, 1);
}

TEST_P(Tar, PicturesThatCrossTheBlocksOfTheDecoder) {
  const TemporaryFolder folder;
  const auto noise = [](int i) {
    KeyedRandom random(static_cast<uint64_t>(i));
    std::vector<uint8_t> pixels(72 * 72 * 3);
    for (uint8_t& p : pixels) p = static_cast<uint8_t>(random.next());
    return pixels;
  };
  {
    TarWriter tar(folder / "set.tar", GetParam());
    for (int i = 0; i < 30; ++i) {
      tar.file("a/" + std::to_string(10 + i) + ".png", encode_png(noise(i), 72, 72, 3));
    }
  }
  const auto source = Source::open(folder / "set.tar", Split::train);
  Image image;
  for (int i = 0; i < 30; ++i) {
    source->read(i, image);
    EXPECT_EQ(image.pixels, noise(i)) << i;
  }
}

TEST(ImageTar, ReplacedFileIsReadAgain) {
  const TemporaryFolder folder;
  const auto write = [&](int count) {
    fs::remove(folder / "set.tar");
    TarWriter tar(folder / "set.tar");
    for (int i = 0; i < count; ++i) tar.file("a/" + std::to_string(i) + ".jpg", jpeg(8, 8, i));
  };
  write(2);
  const auto before = Source::open(folder / "set.tar", Split::train);
  write(3);
  EXPECT_EQ(Source::open(folder / "set.tar", Split::train)->size(), 3);
  EXPECT_EQ(before->size(), 2);
}

INSTANTIATE_TEST_SUITE_P(Filters, Tar, ::testing::Values("", "gzip", "xz", "zstd"));

TEST(ImageTar, HostileEntriesAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "bad.tar";
  const auto refused = [&](auto&& fill) {
    {
      TarWriter tar(path);
      tar.file("cat/1.jpg", jpeg(8, 8, 1));
      fill(tar);
    }
    return open_error(path);
  };
  EXPECT_TRUE(has(refused([](TarWriter& t) { t.file("../x/1.jpg", {1}); }), "points outside"));
  EXPECT_TRUE(has(refused([](TarWriter& t) { t.file("cat/../../1.jpg", {1}); }), "points outside"));
  EXPECT_TRUE(has(refused([](TarWriter& t) { t.file("/etc/1.jpg", {1}); }), "points outside"));
  EXPECT_TRUE(
      has(refused([](TarWriter& t) { t.symlink("cat/2.jpg", "/etc/passwd"); }), "is a link"));
  EXPECT_TRUE(
      has(refused([](TarWriter& t) { t.hardlink("cat/2.jpg", "cat/1.jpg"); }), "is a link"));
  EXPECT_TRUE(has(refused([](TarWriter& t) { t.fifo("cat/2.jpg"); }), "not a regular file"));
  EXPECT_TRUE(
      has(refused([](TarWriter& t) { t.file("cat/1.jpg", jpeg(8, 8, 2)); }), "occurs twice"));
  { TarWriter tar(path); }
  EXPECT_TRUE(has(open_error(path), "no pictures"));
  write_bytes(path, std::vector<uint8_t>(2000, 'x'));
  EXPECT_TRUE(has(open_error(path), "not a tar"));
  write_bytes(path, {});
  EXPECT_TRUE(has(open_error(path), "not a tar"));
}

TEST(ImageTar, FalseSizeTakesNoMemory) {
  const TemporaryFolder folder;
  const std::string path = folder / "bad.tar";
  {
    TarWriter tar(path);
    tar.file("cat/1.jpg", jpeg(8, 8, 1));
  }
  auto bytes = read_bytes(path);
  const auto declare = [&](const std::string& octal) {
    std::copy(octal.begin(), octal.end(), bytes.begin() + 124);
    std::fill(bytes.begin() + 148, bytes.begin() + 156, ' ');
    int sum = 0;
    for (int i = 0; i < 512; ++i) sum += bytes[static_cast<size_t>(i)];
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    std::copy(text, text + 7, bytes.begin() + 148);
    write_bytes(path, bytes);
    return open_error(path);
  };
  EXPECT_TRUE(has(declare("77777777777"), "more than the limit"));  // 8 GiB
  EXPECT_TRUE(has(declare("00700000000"), "truncated"));            // 112 MiB
}

}  // namespace
}  // namespace brim::data
