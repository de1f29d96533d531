// Files that brim writes: new ones are new, and no link leads elsewhere.
#include "core/open_to_write.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "temporary_folder.h"

namespace brim {
namespace {

namespace fs = std::filesystem;

class OpenFile : public ::testing::Test {
 protected:
  OpenFile() { std::ofstream(victim) << "precious"; }
  static std::string content(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const OwnedStream& stream, const char* text) {
    ASSERT_TRUE(stream);
    EXPECT_GE(std::fputs(text, stream.get()), 0);
  }
  tests::TemporaryFolder folder;
  const std::string victim = folder / "victim", path = folder / "file";
};

TEST_F(OpenFile, NewFilesAreNew) {
  write(open_stream(path, O_WRONLY | O_EXCL), "new");
  EXPECT_EQ(content(path), "new");
  EXPECT_FALSE(open_stream(path, O_WRONLY | O_EXCL));
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(content(path), "new");
}

TEST_F(OpenFile, Appends) {
  for (const char* text : {"one ", "two"}) write(open_stream(path, O_WRONLY | O_APPEND), text);
  EXPECT_EQ(content(path), "one two");
}

TEST_F(OpenFile, FollowsNoLink) {
  for (const std::string& target : {victim, folder / "absent"}) {
    fs::remove(path);
    fs::create_symlink(target, path);
    for (const int flags : {O_WRONLY | O_EXCL, O_WRONLY | O_APPEND, O_RDWR})
      EXPECT_LT(open_to_write(path, flags), 0) << target << " " << flags;
  }
  EXPECT_EQ(content(victim), "precious");
  EXPECT_FALSE(fs::exists(folder / "absent"));
}

TEST_F(OpenFile, WaitsForNoPipe) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_LT(open_to_write(path, O_WRONLY | O_APPEND), 0);
  EXPECT_LT(open_to_write(path, O_RDWR), 0);
  EXPECT_LT(open_to_write(folder.path(), O_RDWR), 0);
}

}  // namespace
}  // namespace brim
