// Files that shrink while they are mapped: an error from every source, never a signal or zeros.
#include "data/mapped_file.h"

#include <brim/data/loader.h>
#include <brim/data/source.h>
#include <brim/io/safetensors.h>
#include <brim/ops/create.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "data/descriptor.h"
#include "data/idx_files.h"
#include "data/scratch.h"
#include "data/tar_writer.h"
#include "sanitized.h"

namespace brim::data {
namespace {

using namespace tests;

constexpr int kPictures = 20;

class Shrinking : public ::testing::TestWithParam<const char*> {
 protected:
  /// Makes a data set, and in `file` the path of the file that is mapped.
  std::shared_ptr<const Source> open() {
    const std::string kind = GetParam();
    if (kind == "cifar") {
      file = folder / "data_batch_1.bin";
      write_bytes(file, cifar_records(std::vector<int>(kPictures, 3)));
      return Source::open(folder.path(), Split::train);
    }
    if (kind == "idx") {
      file = folder / "train-images-idx3-ubyte";
      write_bytes(file, brim::tests::idx_images(kPictures));
      write_bytes(folder / "train-labels-idx1-ubyte",
                  brim::tests::idx_labels(std::vector<uint8_t>(kPictures, 3)));
      return Source::open(folder.path(), Split::train);
    }
    if (kind == "tar" || kind == "shards") {
      file = folder / "x-0.tar";
      TarWriter tar(file);
      for (int i = 0; i < kPictures; ++i) {
        const std::string name = "a/" + std::to_string(i);
        tar.file(name + ".png", encode_png(gradient(40, 40, 3, i), 40, 40, 3));
        tar.file(name + ".cls", {'1'});
      }
      return nullptr;  // a tar is whole when its writer ends
    }
    file = folder / "x.safetensors";
    io::save_safetensors(
        file,
        {{"images", full({kPictures, kind == "grey" ? 1 : 3, 32, 32}, 7, {.dtype = DType::u8})},
         {"labels", full({kPictures}, 1, {.dtype = DType::i64})}});
    return Source::open(file, Split::train);
  }

  const TemporaryFolder folder;
  std::string file;
};

TEST_P(Shrinking, IsAnErrorInEveryReader) {
  for (const bool by_pages : {true, false}) {
    auto source = open();
    if (!source)
      source = Source::open(GetParam() == std::string("tar") ? file : folder / "x-{0..0}.tar",
                            Split::train);
    ASSERT_EQ(source->size(), kPictures);
    Image image;
    source->read(0, image);
    const auto size = fs::file_size(file);
    fs::resize_file(file, by_pages ? 5000 : size - 1);  // the end of a page is cut without a signal
    for (const int64_t i : {int64_t{0}, source->size() - 1})
      EXPECT_TRUE(has(message_of<FileError>([&] { source->read(i, image); }),
                      file + ": became shorter while it was open"))
          << i;
    for (const OnError on_error : {OnError::raise, OnError::skip}) {
      for (const int workers : {0, 2}) {
        const auto text = message_of<FileError>([&] {
          const Loader loader(source, {.steps = {Resize{8, 8}}},
                              {.batch = kPictures, .workers = workers, .on_error = on_error});
          for (Batch& batch : loader.epoch(0)) EXPECT_FALSE(batch.x.defined());
        });
        EXPECT_TRUE(has(text, file + ": became shorter while it was open"));
      }
    }
    fs::resize_file(file, size);  // with zeros
    if (!by_pages) continue;
    EXPECT_TRUE(has(message_of<FileError>([&] { source->check(); }), "lost bytes"));
  }
}

INSTANTIATE_TEST_SUITE_P(Sources, Shrinking,
                         ::testing::Values("cifar", "idx", "tar", "shards", "rgb", "grey"));

TEST(MappedFile, LostPagesAreZerosForEveryThread) {
  const TemporaryFolder folder;
  write_bytes(folder / "a", std::vector<uint8_t>(1 << 20, 7));
  write_bytes(folder / "b", std::vector<uint8_t>(1 << 20, 8));
  MappedFile first(folder / "a");
  const MappedFile second(folder / "b"), a = std::move(first);
  fs::resize_file(folder / "a", 10000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      EXPECT_EQ(std::count(a.bytes().begin(), a.bytes().end(), 7), 10000);
      EXPECT_EQ(std::count(second.bytes().begin(), second.bytes().end(), 8), 1 << 20);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THROW(a.check(), FileError);
  EXPECT_NO_THROW(second.check());
  EXPECT_NO_THROW(MappedFile().check());
}

TEST(MappedFile, AnotherFileAtItsPathIsNoLoss) {
  const TemporaryFolder folder;
  write_bytes(folder / "a", std::vector<uint8_t>(10000, 7));
  const MappedFile a(folder / "a");
  write_bytes(folder / "b", {1});
  fs::rename(folder / "b", folder / "a");
  EXPECT_NO_THROW(a.check());
  fs::remove(folder / "a");
  EXPECT_NO_THROW(a.check());
  EXPECT_EQ(std::count(a.bytes().begin(), a.bytes().end(), 7), 10000);
}

TEST(MappedFile, OtherBusErrorsEndTheProcessAsBefore) {
  if (BRIM_SANITIZED) GTEST_SKIP() << "the sanitizer handles them";
  const TemporaryFolder folder;
  write_bytes(folder / "a", std::vector<uint8_t>(10000, 7));
  const auto foreign = [&] {
    const MappedFile ours(folder / "a");
    const Descriptor file(folder / "a");
    const auto* theirs =
        static_cast<volatile uint8_t*>(::mmap(nullptr, 10000, PROT_READ, MAP_PRIVATE, file.fd, 0));
    fs::resize_file(folder / "a", 0);
    (void)theirs[5000];
  };
  EXPECT_EXIT(foreign(), ::testing::KilledBySignal(SIGBUS), "");
  const auto sent = [&] {
    const MappedFile ours(folder / "a");
    ::raise(SIGBUS);
  };
  EXPECT_EXIT(sent(), ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace brim::data
