// Verification: sound data of every kind, and damage that is counted, listed and not thrown.
#include <brim/data/verify.h>
#include <gtest/gtest.h>

#include "data/idx_files.h"
#include "data/scratch.h"
#include "data/tar_writer.h"

namespace brim::data {
namespace {

using namespace tests;

/// `count` pictures in two classes, every third one cut in half.
void write_folder(const std::string& path, int count, bool damaged) {
  for (int i = 0; i < count; ++i) {
    auto bytes = jpeg(20 + i % 2, 16, i);
    if (damaged && i % 3 == 0) bytes.resize(bytes.size() / 2);
    write_bytes(path + (i % 2 ? "/cat/" : "/ant/") + std::to_string(100 + i) + ".jpg", bytes);
  }
}

TEST(Verify, EveryKindOfSource) {
  const TemporaryFolder folder;
  write_folder(folder / "pictures", 10, false);
  write_bytes(folder / "cifar/data_batch_1.bin", cifar_records({0, 3, 3}));
  write_bytes(folder / "cifar/test_batch.bin", cifar_records({9}));
  write_bytes(folder / "mnist/t10k-images-idx3-ubyte", brim::tests::idx_images(2));
  write_bytes(folder / "mnist/t10k-labels-idx1-ubyte", brim::tests::idx_labels({4, 4}));
  {
    TarWriter tar(folder / "set.tar.gz", "gzip");
    for (int i = 0; i < 4; ++i) tar.file("train/a/" + std::to_string(i) + ".jpg", jpeg(8, 8, i));
    tar.file("test/b/x.jpg", jpeg(8, 9, 1));
  }
  VerifyReport r = verify(folder / "pictures");
  EXPECT_TRUE(r.sound());
  EXPECT_EQ(r.images, 10);
  EXPECT_EQ(r.classes, (std::vector<std::string>{"ant", "cat"}));
  ASSERT_EQ(r.splits.size(), 1U);
  EXPECT_EQ(r.splits[0].per_class, (std::vector<int64_t>{5, 5}));
  ASSERT_EQ(r.sizes.size(), 2U);
  EXPECT_EQ(r.pixel_bytes, 3 * 16 * 5 * 41);
  EXPECT_GT(r.seconds, 0);
  r = verify(folder / "cifar");
  EXPECT_TRUE(r.sound());
  ASSERT_EQ(r.splits.size(), 2U);
  EXPECT_EQ(r.splits[0].per_class[3], 2);
  EXPECT_EQ(r.splits[1].images, 1);
  r = verify(folder / "mnist");  // has no train split
  EXPECT_TRUE(r.sound());
  ASSERT_EQ(r.splits.size(), 1U);
  EXPECT_EQ(r.splits[0].split, Split::test);
  EXPECT_EQ(r.splits[0].per_class[4], 2);
  r = verify(folder / "set.tar.gz");
  EXPECT_TRUE(r.sound());
  EXPECT_EQ(r.images, 5);
  EXPECT_EQ(r.sizes[0], (std::pair<ImageShape, int64_t>{{3, 8, 8}, 4}));
}

TEST(Verify, DamagedPicturesAreListedInOrderForAnyNumberOfWorkers) {
  const TemporaryFolder folder;
  write_folder(folder.path() + "/train", 100, true);
  write_folder(folder.path() + "/test", 7, true);
  for (const int workers : {0, 1, 3}) {
    const VerifyReport r = verify(folder.path(), {.workers = workers, .listed = 36});
    EXPECT_FALSE(r.sound());
    EXPECT_EQ(r.images, 107);
    EXPECT_EQ(r.damaged, 34 + 3);
    ASSERT_EQ(r.damage.size(), 36U);
    EXPECT_EQ(r.damage[0].index, 0);
    EXPECT_TRUE(r.damage[0].reason.starts_with(folder / "train/ant/100.jpg: damaged"))
        << r.damage[0].reason;
    for (size_t i = 1; i < 34; ++i) {
      EXPECT_EQ(r.damage[i].split, Split::train);
      EXPECT_LT(r.damage[i - 1].index, r.damage[i].index);
    }
    EXPECT_EQ(r.damage[35].split, Split::test);
    EXPECT_EQ(r.sizes[0].second + r.sizes[1].second, 70);
    EXPECT_EQ(r.splits[0].per_class, (std::vector<int64_t>{50, 50}));
  }
}

TEST(Verify, SplitThatCannotBeOpened) {
  const TemporaryFolder folder;
  write_bytes(folder / "data_batch_1.bin", cifar_records({0, 3, 3}));
  write_bytes(folder / "test_batch.bin", {1, 2, 3});
  const VerifyReport r = verify(folder.path());
  EXPECT_FALSE(r.sound());
  EXPECT_EQ(r.images, 3);
  EXPECT_EQ(r.damaged, 0);
  ASSERT_EQ(r.damage.size(), 1U);
  EXPECT_EQ(r.damage[0].split, Split::test);
  EXPECT_EQ(r.damage[0].index, -1);
  EXPECT_NE(r.damage[0].reason.find("test_batch.bin: 3 bytes"), std::string::npos);
  // Nothing at all: the error of Source::open.
  write_bytes(folder / "data_batch_1.bin", {1});
  EXPECT_NE(message_of<FileError>([&] { verify(folder.path()); }).find("data_batch_1.bin: 1 bytes"),
            std::string::npos);
  EXPECT_THROW(verify(folder / "absent"), FileError);
  EXPECT_THROW(verify(folder.path(), {.workers = -2}), ValueError);
  EXPECT_THROW(verify(folder.path(), {.listed = 0}), ValueError);
}

TEST(Verify, ProgressRisesAndCanStop) {
  const TemporaryFolder folder;
  write_folder(folder.path(), 60, true);
  for (const int workers : {0, 2}) {
    double last = 0;
    verify(folder.path(), {.workers = workers, .progress = [&](const VerifyProgress& p) {
                             EXPECT_GE(p.fraction, last);
                             last = p.fraction;
                             return true;
                           }});
    EXPECT_EQ(last, 1);
    EXPECT_THROW(
        verify(folder.path(), {.workers = workers, .progress = [](const auto&) { return false; }}),
        Error);
  }
}

}  // namespace
}  // namespace brim::data
