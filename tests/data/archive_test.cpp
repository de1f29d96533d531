// Archives to their last byte: checksums, and what follows the end.
#include <brim/data/source.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/keyed.h"
#include "data/scratch.h"
#include "data/tar_writer.h"

namespace brim::data {
namespace {

using namespace tests;

class ArchiveEnd : public ::testing::TestWithParam<const char*> {
 protected:
  /// A tar of one picture of `size` bytes that nothing makes smaller; libarchive pads it to 10 KiB.
  std::vector<uint8_t> write(size_t size) const {
    KeyedRandom random(size);
    std::vector<uint8_t> picture(size);
    for (uint8_t& byte : picture) byte = static_cast<uint8_t>(random.next());
    TarWriter(path, GetParam()).file("a/0.jpg", picture);
    return picture;
  }
  std::string error() const {
    return message_of<FileError>([&] { (void)Source::open(path, Split::train); });
  }

  const TemporaryFolder folder;
  const std::string path = folder / "set.tar";
};

class ArchiveChecksum : public ArchiveEnd {};  // libarchive writes none for zstd

TEST_P(ArchiveChecksum, AFlippedBitIsFoundOrChangesNothing) {
  // The second one's padding, and with it the checksum, lies behind the decoder's block of 64 KiB
  // that holds the end mark.
  for (const size_t size : {size_t{3000}, size_t{62000}}) {
    const auto picture = write(size);
    const auto good = read_bytes(path);
    int refused = 0;
    for (uint64_t i = 0; i < 150; ++i) {
      auto bytes = good;
      KeyedRandom random(i);
      bytes[random.next() % bytes.size()] ^= static_cast<uint8_t>(1 << random.next() % 8);
      write_bytes(path, bytes);
      try {
        std::vector<uint8_t> buffer;
        const auto source = Source::open(path, Split::train);
        const auto read = source->file(0, buffer);
        EXPECT_TRUE(std::equal(read.begin(), read.end(), picture.begin(), picture.end())) << i;
      } catch (const FileError&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 100);
  }
}

TEST_P(ArchiveEnd, NothingFollowsIt) {
  write(3000);
  const auto good = read_bytes(path);
  for (const std::string junk : {"x", "hello, world", "\x1f\x8b", "\x1f\x8b\x08 and no more"}) {
    auto bytes = good;
    bytes.insert(bytes.end(), junk.begin(), junk.end());
    write_bytes(path, bytes);
    EXPECT_NE(error(), "no error") << junk;
  }
}

TEST(ZstdArchive, ChecksumIsCompared) {
  const char* root = std::getenv("BRIM_SOURCE_DIR");
  const auto good =
      read_bytes(std::string(root ? root : ".") + "/tests/fuzz/corpus/tar/flat.tar.zst");
  ASSERT_GT(good.size(), 4U);
  const TemporaryFolder folder;
  for (size_t back = 0; back <= 4; ++back) {
    auto bytes = good;
    if (back > 0) bytes[bytes.size() - back] ^= 1;
    write_bytes(folder / "set.tar", bytes);
    const auto error =
        message_of<FileError>([&] { (void)Source::open(folder / "set.tar", Split::train); });
    EXPECT_EQ(error == "no error", back == 0) << error;
  }
}

class TarEnd : public ArchiveEnd {};

TEST_P(TarEnd, ASecondTarBehindItIsNotLeftOut) {
  write(3000);
  auto bytes = read_bytes(path);
  bytes.insert(bytes.end(), bytes.begin(), bytes.end());
  write_bytes(path, bytes);
  EXPECT_TRUE(has(error(), "something follows the end mark"));
}

INSTANTIATE_TEST_SUITE_P(Filters, ArchiveEnd, ::testing::Values("gzip", "xz", "zstd"));
INSTANTIATE_TEST_SUITE_P(Filters, ArchiveChecksum, ::testing::Values("gzip", "xz"));
INSTANTIATE_TEST_SUITE_P(Filters, TarEnd, ::testing::Values("", "gzip", "xz", "zstd"));

TEST(GzipArchive, JoinedFilesAreOne) {
  const TemporaryFolder folder;
  const std::string path = folder / "set.tar";
  const auto picture = jpeg(32, 32, 1);
  TarWriter(path).file("a/0.jpg", picture);
  const auto tar = read_bytes(path);
  std::vector<uint8_t> joined;
  for (const size_t begin : {size_t{0}, size_t{700}}) {
    const auto from = tar.begin() + static_cast<ptrdiff_t>(begin);
    write_filtered(folder / "part", "gzip", {from, begin == 0 ? tar.begin() + 700 : tar.end()});
    const auto part = read_bytes(folder / "part");
    joined.insert(joined.end(), part.begin(), part.end());
  }
  write_bytes(path, joined);
  std::vector<uint8_t> buffer;
  const auto source = Source::open(path, Split::train);
  const auto read = source->file(0, buffer);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), picture.begin(), picture.end()));
}

}  // namespace
}  // namespace brim::data
