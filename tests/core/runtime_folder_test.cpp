// The folder in which running processes are found: which it is, and whose it must be.
#include "core/runtime_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <brim/core/error.h>

namespace brim {
namespace {

namespace fs = std::filesystem;

class RuntimeFolder : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"BRIM_RUNTIME_DIR", "XDG_RUNTIME_DIR"}) unsetenv(name);
    here_ = fs::path(testing::TempDir()) / ("runtime_folder_" + std::to_string(getpid()));
    fs::remove_all(here_);
    fs::create_directories(here_);
  }
  void TearDown() override {
    for (const char* name : {"BRIM_RUNTIME_DIR", "XDG_RUNTIME_DIR"}) unsetenv(name);
    fs::remove_all(here_);
  }
  /// What make_runtime_folder() says of this folder; "" where it takes it.
  static std::string refusal(const fs::path& folder) {
    setenv("BRIM_RUNTIME_DIR", folder.c_str(), 1);
    try {
      (void)make_runtime_folder();
      return "";
    } catch (const FileError& e) {
      return e.what();
    }
  }

  fs::path here_;
};

TEST_F(RuntimeFolder, IsTheUsers) {
  EXPECT_EQ(runtime_folder(), "/tmp/brim-" + std::to_string(getuid()));
  setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  EXPECT_EQ(runtime_folder(), "/run/user/7/brim");
  setenv("BRIM_RUNTIME_DIR", "/elsewhere", 1);
  EXPECT_EQ(runtime_folder(), "/elsewhere");
  setenv("BRIM_RUNTIME_DIR", "", 1);
  EXPECT_EQ(runtime_folder(), "/run/user/7/brim");
}

TEST_F(RuntimeFolder, IsMadeForItsOwnerAlone) {
  EXPECT_EQ(refusal(here_ / "new"), "");
  struct stat found {};
  ASSERT_EQ(stat((here_ / "new").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700U);
  EXPECT_EQ(refusal(here_ / "new"), "") << "it is there now";
}

TEST_F(RuntimeFolder, OneThatOthersMayWriteToIsRefused) {
  fs::create_directory(here_ / "open");
  fs::permissions(here_ / "open", fs::perms::all);
  EXPECT_NE(refusal(here_ / "open").find("may be written to by other users"), std::string::npos);
  fs::create_directory(here_ / "own");
  fs::create_symlink(here_ / "own", here_ / "link");
  EXPECT_NE(refusal(here_ / "link").find("is no folder"), std::string::npos);
  EXPECT_NE(refusal(here_ / "no" / "parent").find("cannot be made"), std::string::npos);
}

}  // namespace
}  // namespace brim
