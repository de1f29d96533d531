// XXH64 against the values of the reference implementation.
#include "io/hash.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <brim/core/error.h>

#include "core/hash.h"
#include "temporary_folder.h"

namespace brim::io {
namespace {

TEST(Hash, KnownValues) {
  EXPECT_EQ(xxh64("", 0), 0xef46db3751d8e999);
  EXPECT_EQ(xxh64("a", 1), 0xd24ec4f1a98c6e5b);
  EXPECT_EQ(xxh64("abc", 3), 0x44bc2cf5ad770999);
  const std::string text = "The quick brown fox jumps over the lazy dog";
  EXPECT_EQ(xxh64(text.data(), text.size()), 0x0b242d361fda71bc);
}

TEST(Hash, FileEqualsMemory) {
  const tests::TemporaryFolder folder;
  const std::string path = folder / "file";
  for (const size_t size : {0, 1, 31, 32, 33, 262143, 262144, 262145, 600001}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
    std::ofstream(path, std::ios::binary) << bytes;
    const FileHash hash = hash_file(path);
    EXPECT_EQ(hash.bytes, size);
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016llx",
                  static_cast<unsigned long long>(xxh64(bytes.data(), size)));
    EXPECT_EQ(hash.hex, hex) << size;
  }
  std::filesystem::remove(path);
  EXPECT_THROW((void)hash_file(path), FileError);
}

}  // namespace
}  // namespace brim::io
